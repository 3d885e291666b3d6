"""The graph of people, things and places: the names in memory, and the items that link them.

It is drawn from the newest items that somebody may see, so that it costs the same however large a tenant is.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.core.ids import LAST
from recordari.core.items import Item
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.memory import storage, vector_storage
from recordari.memory.rules import EntityLink, EntityNode
from recordari.tenants.tenants import page_size

MOST_ITEMS = 3_000
MOST_NODES = 1_000
LINKS_PER_NODE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityGraph:
    """Entities that occur in most items, and the items that link them."""

    __pydantic_config__ = DESCRIBED

    nodes: tuple[EntityNode, ...]
    """Those in most items first."""
    links: tuple[EntityLink, ...]
    """Pairs of these nodes in one item; those in most items first."""
    looked_at: int
    """How many items were looked at: the newest, at most 3,000."""


async def entity_graph(
    resources: Resources, identity: Identity, *, around: UUID | None = None, limit: int = 200
) -> EntityGraph:
    """The people, things and places that your newest memories mention, and the items that link them.

    With `around`, those that are mentioned together with one entity. An administrator who names no user sees the whole
    tenant.
    """
    if not 1 <= limit <= MOST_NODES:
        raise InvalidInput(f"limit must be from 1 to {MOST_NODES}", field="limit")
    async with resources.database.transaction(identity) as tx:
        if around is None:
            looked_at = await vector_storage.newest_items(tx, limit=MOST_ITEMS)
        else:
            looked_at = await vector_storage.items_mentioning(tx, around, None, before=LAST, limit=MOST_ITEMS)
        nodes = await vector_storage.entities_of(tx, looked_at, limit=limit)
        names = [node.entity_id for node in nodes]
        links = await vector_storage.links_between(tx, looked_at, names, limit=limit * LINKS_PER_NODE)
    return EntityGraph(nodes=tuple(nodes), links=tuple(links), looked_at=len(looked_at))


async def entity_items(
    resources: Resources,
    identity: Identity,
    entity_id: UUID,
    *,
    other_id: UUID | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[Item]:
    """The memories that mention an entity, newest first; with `other_id`, those that mention both.

    `before` is the id of the last one seen.
    """
    async with resources.database.transaction(identity) as tx:
        item_ids = await vector_storage.items_mentioning(
            tx, entity_id, other_id, before=before or LAST, limit=page_size(limit)
        )
        found = await storage.find_items(tx, item_ids)
    return [found[item_id] for item_id in item_ids if item_id in found]
