"""Copying: a new agent starts with what its template knows and how it does things (S7)."""

from __future__ import annotations

from dataclasses import dataclass

from recordari.core.identity import AgentId, Identity, checked_id
from recordari.db import audit, outbox
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC
from recordari.sharing import storage
from recordari.sharing.storage import ToCopy
from recordari.tenants import tenants
from recordari.tenants.rules import Agent, AgentDefinition
from recordari.tenants.tenants import get_agent, require_admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """How much was copied; what the agent had already is not counted."""

    items: int
    workflows: int


async def save_agent(
    resources: Resources,
    identity: Identity,
    agent_id: str,
    definition: AgentDefinition,
    *,
    expected_version: int | None = None,
    template: str | None = None,
) -> Agent:
    """Create or replace a definition; with a template, it gets those memories of it that it does not have."""
    if template is not None:
        await get_agent(resources, identity, template)
    agent = await tenants.save_agent(resources, identity, agent_id, definition, expected_version=expected_version)
    if template is not None:  # not only the first time: the call may come again after a crash
        await copy_memories(resources, identity, template, agent_id)
    return agent


async def copy_memories(resources: Resources, identity: Identity, template: str, agent_id: str) -> Copied:
    """Give an agent what another one knows for good: facts, procedures, and workflows with their posteriors.

    Copies rest on their originals, so that whatever is forgotten there is forgotten here. Nothing is embedded again. Done
    again, only what is new to the agent is copied.
    """
    require_admin(identity)
    if template == agent_id:
        raise InvalidInput("an agent cannot be its own template", field="template")
    await get_agent(resources, identity, template)
    await get_agent(resources, identity, agent_id)
    source, target = AgentId(template), AgentId(checked_id("agent_id", agent_id))
    async with resources.database.transaction(identity) as tx:
        found = await storage.list_to_copy(tx, source)
        refs = [_copied_ref(one, source, target) for one in found]
        copies, waiting = await storage.copy_items(tx, found, refs, template=source, agent_id=target)
        workflows = await storage.copy_workflows(tx, source, target, now=resources.clock())
        await outbox.add(tx, EMBED_TOPIC, waiting)
        await audit.record(
            tx, "agent.copy", "agent", agent_id, template=template, items=len(copies), workflows=workflows
        )
    if waiting:
        resources.wake(EMBED_TOPIC)
    return Copied(items=len(copies), workflows=workflows)


def _copied_ref(one: ToCopy, template: AgentId, agent_id: AgentId) -> str:
    """The reference of a copy: the one that the agent would give the same words, so that stating them finds it."""
    for kind in ("fact", "pattern"):
        prefix = f"{kind}:agent:{template}:"
        if one.source_ref.startswith(prefix):
            return f"{kind}:agent:{agent_id}:{one.source_ref.removeprefix(prefix)}"
    return f"copy:{agent_id}:{one.item_id}"
