"""Remembers histories as a user would, one tenant for each, and asks recall what a benchmark asks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from recordari.app import Memory
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.items import Kind
from recordari.evaluation.rules.formats import GoldQuestion, Haystack
from recordari.kit.resources import Resources
from recordari.recall.request import Arm, RecalledItem
from recordari.runner import background_worker
from recordari.tenants import tenants

TOP_K = 20  # the most that recall gives; its trace goes on to the measures' last cut
EVERY_ARM = frozenset(Arm)
_READY_SECONDS = 0.2


def tenant_of(haystack: Haystack) -> str:
    """A tenant for exactly these turns: another version of a file is another tenant, the same one goes on."""
    said = "\x1f".join(f"{turn.source_ref}\x1e{turn.content}" for turn in haystack.turns)
    return f"{haystack.name[:40]}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


async def open_haystack(resources: Resources, haystack: Haystack) -> Memory:
    """The memory of a history's own tenant."""
    name = tenant_of(haystack)
    tenant = await tenants.ensure_tenant(resources, name)
    memory = Memory(resources, Identity(tenant_id=tenant_id_of(name), role=Role.ADMIN))
    if tenant.settings.get("extraction") != "off":
        # What is measured is the recall of turns: facts drawn from them would only cost time here.
        await memory.update_tenant(settings={"extraction": "off"})
    return memory.acting_as(user="person")


async def remember(memory: Memory, haystack: Haystack) -> int:
    """Remember every turn, and wait until a worker has embedded all; how many were new."""
    count = 0
    async for batch in memory.import_items(haystack.turns):
        count += sum(one.was_new for one in batch)
    if memory.resources.embedders.primary is not None:
        while (await memory.recall("anything", top_k=1)).degraded:  # noqa: ASYNC110 - the worker may be elsewhere
            await asyncio.sleep(_READY_SECONDS)
    # What the process knows of the tenant may be from before the last turns: the first questions would be weighed by it.
    memory.resources.forget_tenant(memory.identity.tenant_id)
    return count


async def ingest(resources: Resources, haystacks: Sequence[Haystack]) -> int:
    """Remember several histories with a worker of their own; how many turns were new."""
    async with background_worker(resources):
        return sum([await remember(await open_haystack(resources, haystack), haystack) for haystack in haystacks])


def at_moment(resources: Resources, moment: datetime | None) -> Resources:
    """The same with the clock at the moment a question is asked."""
    return resources if moment is None else replace(resources, clock=lambda: moment)


class References:
    """The references of items by id, each looked up once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    async def of(self, memory: Memory, ids: Sequence[str]) -> list[str]:
        for one in ids:
            if one not in self._known:
                self._known[one] = (await memory.get_item(UUID(one))).source_ref
        return [self._known[one] for one in ids]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What recall gave for one question: references as deep as its trace goes, and the items of the answer."""

    refs: tuple[str, ...]
    items: tuple[RecalledItem, ...]
    confidence: float


async def retrieve(
    memory: Memory, question: GoldQuestion, references: References, *, arms: frozenset[Arm] = EVERY_ARM
) -> Retrieved:
    """Ask recall at the moment of the question."""
    bound = Memory(at_moment(memory.resources, question.asked_at), memory.identity)
    answer = await bound.recall(question.text, top_k=TOP_K, source_kinds=[Kind.CHAT_MESSAGE], explain=True, arms=arms)
    assert answer.trace is not None
    refs = await references.of(bound, [one["id"] for one in answer.trace["items"]])
    return Retrieved(tuple(refs), tuple(answer.items), answer.confidence)
