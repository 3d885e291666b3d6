"""CrewAI: a `Memory` that recalls before each task, keeps what agents did as episodes, and what they want to know as facts.

    from crewai import Crew
    from recordari.integrations.crewai import RecordariMemory

    crew = Crew(agents=[…], tasks=[…], memory=RecordariMemory(memory, user="ana", agent="research"))
    crew.kickoff()

`memory` is of `recordari.sync`: CrewAI calls its memory without `await`. It needs no model and no embedder of CrewAI's.
`user` and `agent` say whose memory it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from crewai import Memory as CrewMemory
from crewai.memory.types import MemoryMatch, MemoryRecord
from pydantic import PrivateAttr

from recordari.core.items import REVIEWED_TRUST, Item, Kind
from recordari.errors import ConfigurationError, InvalidInput
from recordari.integrations.base import MemoryCaller, fenced_text
from recordari.recall.request import AGENT_TOP_K, RecalledItem
from recordari.sync import Facade

__all__ = ["RecordariMemory"]

SCOPE = "crewai_scope"  # in the metadata: the path that CrewAI gave a memory
PAGE = 100


class Work(str):
    """What an agent did in a task; it is kept as an episode."""

    __slots__ = ()


class RecordariMemory(CrewMemory):
    """The memory of a crew, an agent or a flow."""

    _caller: MemoryCaller = PrivateAttr()

    def __init__(self, memory: Facade, *, user: str | None = None, agent: str | None = None, **more: Any) -> None:
        if user is None and agent is None:
            raise ConfigurationError("say whose memory it is: `user`, `agent`, or both")
        super().__init__(storage=self, **more)  # CrewAI would open a database of its own
        self._caller = MemoryCaller(memory).acting_as(user=user, agent=agent)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> RecordariMemory:
        """A copy of a crew has the same memory."""
        return self

    def extract_memories(self, content: str) -> list[str]:
        """What happened, whole: Recordari learns from episodes itself."""
        return [Work(content)]

    def remember(
        self,
        content: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> MemoryRecord | None:
        """Keep a fact; what an agent did becomes an episode."""
        if self.read_only:
            return None
        verbs, path = self._caller.memory, _path(root_scope or self.root_scope, scope)
        more = {**(metadata or {}), SCOPE: path, **({"agent_role": agent_role} if agent_role else {})}
        if isinstance(content, Work):
            kept = self._caller.wait(verbs.append_episode(str(content), metadata=more))
        else:
            category = categories[0] if categories else None
            kept = self._caller.wait(verbs.remember_fact(content, category=category, metadata=more))
        return MemoryRecord(id=str(kept.id), content=content, scope=path, categories=categories or [], metadata=more)

    def remember_many(self, contents: list[str], *arguments: Any, **named: Any) -> list[MemoryRecord]:
        kept = [self.remember(content, *arguments, **named) for content in contents]
        return [record for record in kept if record is not None]

    def recall(
        self,
        query: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        limit: int = 10,
        depth: Any = "deep",
        source: str | None = None,
        include_private: bool = False,
    ) -> list[MemoryMatch]:
        """Recall memories about a question, best first; with a scope, only what CrewAI kept below that path."""
        if not query.strip():
            return []
        answer = self._caller.wait(self._caller.memory.recall(query[:8_000], top_k=min(limit, AGENT_TOP_K)))
        path = _path(self.root_scope, scope) if scope else "/"
        found = [_record(item, str(item.id)) for item in answer.items]
        return [
            MemoryMatch(record=record, score=max(0.0, min(1.0, item.score)), match_reasons=list(item.found_by))
            for item, record in zip(answer.items, found, strict=True)
            if _is_below(record.scope, path)
        ]

    def update(
        self,
        record_id: str,
        content: str | None = None,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
    ) -> MemoryRecord:
        """Give a fact a new text; the old one stays among its versions."""
        if content is None or self.read_only:
            return _record(self._caller.wait(self._caller.memory.get_item(UUID(record_id))), record_id)
        changed = self._caller.wait(self._caller.memory.edit_item(UUID(record_id), content))
        return _record(self._caller.wait(self._caller.memory.get_item(changed.id)), str(changed.id))

    def forget(
        self,
        scope: str | None = None,
        categories: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
        record_ids: list[str] | None = None,
    ) -> int:
        """Forget memories with everything derived from them, by their ids or by what they have in common."""
        if record_ids is None:
            record_ids = [
                record.id
                for record in self.list_records(scope, limit=10_000)
                if (not categories or set(categories) & set(record.categories))
                and (older_than is None or record.created_at < older_than)
                and all(record.metadata.get(name) == value for name, value in (metadata_filter or {}).items())
            ]
        for record_id in record_ids:
            self._caller.wait(self._caller.memory.forget(UUID(record_id), reason="deleted through CrewAI"))
        return len(record_ids)

    def list_records(self, scope: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Facts and episodes, newest first."""
        path = _path(self.root_scope, scope)
        records: list[MemoryRecord] = []
        before: UUID | None = None
        while len(records) < limit + offset:
            kinds = [Kind.FACT, Kind.EPISODE]
            page = self._caller.wait(self._caller.memory.list_items(kinds=kinds, limit=PAGE, before=before))
            found: Sequence[Item] = page.items
            records += [record for item in found if _is_below((record := _record(item, str(item.item_id))).scope, path)]
            before = page.next_before
            if before is None:
                break
        return records[offset : offset + limit]

    def list_scopes(self, path: str | None = None) -> list[str]:
        return sorted({record.scope for record in self.list_records(path, limit=10_000)})

    def list_categories(self, path: str | None = None) -> dict[str, int]:
        names = [name for record in self.list_records(path, limit=10_000) for name in record.categories]
        return {name: names.count(name) for name in sorted(set(names))}

    def info(self, path: str | None = None) -> Any:
        raise InvalidInput("Recordari shows what it knows by itself: `recordari stats`, or its dashboard")

    def reset(self, scope: str | None = None) -> None:
        """Forget the facts and episodes of a scope, or of all."""
        self.forget(scope)

    def drain_writes(self) -> None:
        """Every write is done when it returns."""

    def close(self) -> None:
        """The memory is yours to close."""


def _path(root: str | None, scope: str | None) -> str:
    return "/" + "/".join(part for part in f"{root or ''}/{scope or ''}".split("/") if part)


def _is_below(scope: str, path: str) -> bool:
    return path == "/" or scope == path or scope.startswith(f"{path}/")


def _record(item: Item | RecalledItem, record_id: str) -> MemoryRecord:
    """An item as CrewAI shows it; what neither the user nor the agent said is data, inside a block."""
    is_said = item.trust in REVIEWED_TRUST
    content = item.content if is_said else fenced_text(item.content, trust=item.trust, who=item.speaker)
    category = getattr(item, "category", None)
    return MemoryRecord(
        id=record_id,
        content=content,
        scope=str(item.metadata.get(SCOPE, "/")),
        categories=[category] if category else [],
        metadata={"trust": str(item.trust), "when": item.event_time.isoformat()},
        created_at=item.event_time,
        source=item.speaker,
    )
