"""Agent runs with their turns and tool calls, what they were handed, and the episodes they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recordari.core.identity import Scope, optional_choice
from recordari.core.items import Item
from recordari.memory.remember import Remembered
from recordari.sessions import episodes, runs, state
from recordari.sessions.rules.runs import NewToolCall, Replay, Run, RunStatus, StartedTurn, ToolCall, Turn, Usage
from recordari.sessions.rules.state import StateEntry
from recordari.verbs.bound import Bound


class RunVerbs(Bound):
    """The verbs of runs and episodes."""

    async def start_run(self, **more: Any) -> StartedTurn:
        """Start a run and its first turn; `more` are `run_id`, `session_id`, `input`, `episodes`, `metadata`."""
        return await runs.start_run(self.resources, self.identity, **more)

    async def start_turn(self, run_id: str, **more: Any) -> StartedTurn:
        """Begin the next turn of a run with the agent's last episodes."""
        return await runs.start_turn(self.resources, self.identity, run_id, **more)

    async def end_turn(self, run_id: str, *, usage: Usage | None = None, **more: Any) -> Turn:
        """End the present turn of a run; `more` are `prompt_tokens`, `state` and `error`."""
        return await runs.end_turn(self.resources, self.identity, run_id, usage=usage, **more)

    async def complete_run(self, run_id: str, *, output: Any = None, usage: Usage | None = None) -> Run:
        """End a run well."""
        return await runs.complete_run(self.resources, self.identity, run_id, output=output, usage=usage)

    async def fail_run(self, run_id: str, *, error: str, output: Any = None, usage: Usage | None = None) -> Run:
        """End a run that failed, and say why."""
        return await runs.fail_run(self.resources, self.identity, run_id, error=error, output=output, usage=usage)

    async def get_run(self, run_id: str) -> Run:
        """One run."""
        return await runs.get_run(self.resources, self.identity, run_id)

    async def list_runs(self, *, status: RunStatus | str | None = None, **more: Any) -> list[Run]:
        """Runs, newest first; `more` are `agent_id`, `session_id`, `since`, `until`, `before` and `limit`."""
        chosen = optional_choice("status", RunStatus, status)
        return await runs.list_runs(self.resources, self.identity, status=chosen, **more)

    async def record_tool_calls(self, run_id: str, calls: Sequence[NewToolCall]) -> list[ToolCall]:
        """Append tool calls to a run in the order given."""
        return await runs.record_tool_calls(self.resources, self.identity, run_id, calls)

    async def replay_run(self, run_id: str, *, results: bool = True) -> Replay:
        """Every turn and tool call of a run in order, exactly as recorded."""
        return await runs.replay(self.resources, self.identity, run_id, results=results)

    async def delegate(self, name: str, value: object, *, run_id: str | None = None) -> StateEntry:
        """Hand something to a run; it lives as long as the run does."""
        return await state.delegate(self.resources, self.identity, name, value, run_id=run_id)

    async def delegated(self, *, run_id: str | None = None) -> dict[str, Any]:
        """Everything that was handed to a run, by name."""
        return await state.delegated(self.resources, self.identity, run_id=run_id)

    async def append_episode(self, content: str, *, scope: Scope | str | None = None, **more: Any) -> Remembered:
        """Keep what the agent did; `more` are `run_id`, `session_id`, `episode_id`, `event_time`, `metadata`."""
        chosen = optional_choice("scope", Scope, scope)
        return await episodes.append_episode(self.resources, self.identity, content, scope=chosen, **more)

    async def last_episodes(self, *, limit: int = 10) -> list[Item]:
        """The last episodes of the agent, oldest first."""
        return await episodes.last_episodes(self.resources, self.identity, limit=limit)
