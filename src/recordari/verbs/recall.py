"""What memory answers, and what an agent is to see of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recordari.context import assemble, profiles
from recordari.context.assemble import Context, ContextRequest
from recordari.context.rules.context import Iteration, Rendering
from recordari.context.rules.profiles import Profile
from recordari.core.identity import AskedScope, Scope, checked_choice
from recordari.core.items import Kind
from recordari.recall import recall
from recordari.recall.request import RecallAnswer, RecallRequest
from recordari.verbs.bound import Bound


class RecallVerbs(Bound):
    """The verbs of recall and context."""

    async def recall(
        self,
        query: str,
        *,
        top_k: int = 5,
        source_kinds: Sequence[Kind | str] | None = None,
        scope: Scope | str = "any",
        **more: Any,
    ) -> RecallAnswer:
        """Find what answers the question; `more` are the further fields of `RecallRequest`, such as `as_of`, `explain`."""
        request = RecallRequest(
            query=query,
            top_k=top_k,
            source_kinds=tuple(checked_choice("source_kinds", Kind, kind) for kind in source_kinds)
            if source_kinds
            else None,
            scope=checked_choice("scope", AskedScope, scope).scope,
            **more,
        )
        return await recall.recall(self.resources, self.identity, request)

    async def get_context(
        self, question: str | None = None, *, render: Rendering | str = Rendering.TEXT, **more: Any
    ) -> Context:
        """What the agent is to see; `more` are the further fields of `ContextRequest`, such as `budget`, `profile`."""
        if "iterate" in more:
            more["iterate"] = checked_choice("iterate", Iteration, more["iterate"])
        request = ContextRequest(question=question, render=checked_choice("render", Rendering, render), **more)
        return await assemble.assemble(self.resources, self.identity, request)

    async def profile(self, *, user: str | None = None, agent: str | None = None) -> Profile:
        """What is known of a user or an agent in a few hundred tokens; without either, of who asks."""
        return await profiles.profile(self.resources, self.identity, user=user, agent=agent)
