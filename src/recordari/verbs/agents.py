"""Definitions of agents, and what one gives another to start with."""

from __future__ import annotations

from recordari.sharing import copy_agent
from recordari.sharing.copy_agent import Copied
from recordari.tenants import tenants
from recordari.tenants.rules import Agent, AgentDefinition
from recordari.verbs.bound import Bound


class AgentVerbs(Bound):
    """The verbs of agents."""

    async def save_agent(
        self,
        agent_id: str,
        definition: AgentDefinition,
        *,
        expected_version: int | None = None,
        template: str | None = None,
    ) -> Agent:
        """Create or replace an agent's definition; with `template` it starts with what that agent knows."""
        return await copy_agent.save_agent(
            self.resources, self.identity, agent_id, definition, expected_version=expected_version, template=template
        )

    async def copy_memories(self, template: str, agent_id: str) -> Copied:
        """Give an agent what another one knows; done again it copies what is new."""
        return await copy_agent.copy_memories(self.resources, self.identity, template, agent_id)

    async def get_agent(self, agent_id: str) -> Agent:
        """One agent's definition."""
        return await tenants.get_agent(self.resources, self.identity, agent_id)

    async def list_agents(self, *, after: str = "", limit: int = 50) -> list[Agent]:
        """Agents by id."""
        return await tenants.list_agents(self.resources, self.identity, after=after, limit=limit)

    async def delete_agent(self, agent_id: str) -> None:
        """Remove an agent's definition."""
        await tenants.delete_agent(self.resources, self.identity, agent_id)
