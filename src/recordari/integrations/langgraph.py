"""LangGraph's long-term memory: a `BaseStore` whose items are entries, so that recall finds them too.

    from recordari import Memory
    from recordari.integrations.langgraph import RecordariStore

    async with Memory.open(agent="assistant") as memory:
        graph = builder.compile(store=RecordariStore(memory))

A store has one owner: the user or the agent that the memory acts as (`scope`), within the tenant. Namespaces, keys, values,
filters, time to live and `index` mean what they mean to LangGraph. Embedding is Recordari's own, in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

from recordari.entries.rules import MAX_PAGE, Entry, FoundEntry
from recordari.errors import InvalidInput, NotFound
from recordari.integrations.base import MemoryCaller, Verbs
from recordari.sync import Facade

__all__ = ["RecordariStore"]


class RecordariStore(BaseStore):
    """A LangGraph store in Recordari.

    `fields` are indexed if `put` names none; without them the whole value is indexed. `ttl` is LangGraph's configuration
    of lifetimes, in minutes.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Verbs | Facade,
        *,
        scope: str | None = None,
        fields: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self._caller = MemoryCaller(memory)
        self._scope = scope
        self._fields = list(fields) if fields is not None else None
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; needs a `recordari.sync` memory, because this method is not async."""
        return self._caller.wait(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._caller.run(self._batch(list(ops)))

    async def _batch(self, ops: Sequence[Op]) -> list[Result]:
        """Reads come first and see the state before the batch. Of two writes to a key the later counts."""
        reads = {position: self._read(op) for position, op in enumerate(ops) if not isinstance(op, PutOp)}
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        try:
            results = dict(zip(reads, await asyncio.gather(*reads.values()), strict=True))
            await asyncio.gather(*(self._write(op) for op in puts.values()))
        except InvalidInput as error:
            raise ValueError(error.message) from error  # like LangGraph's own stores
        return [results.get(position) for position in range(len(ops))]

    def _read(self, op: Op) -> Coroutine[Any, Any, Result]:
        match op:
            case GetOp():
                return self._get(op)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._list_namespaces(op)
            case _:
                raise ValueError(f"Unknown operation type: {type(op)}")

    async def _get(self, op: GetOp) -> Item | None:
        try:
            entry = await self._caller.memory.get_entry(op.namespace, op.key, scope=self._scope, refresh=op.refresh_ttl)
        except NotFound:
            return None
        return Item(**_fields(entry))

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        entries: list[FoundEntry] = []
        while len(entries) < op.limit:
            page = await self._caller.memory.search_entries(
                op.namespace_prefix,
                query=op.query,
                filter=op.filter,
                scope=self._scope,
                limit=min(op.limit - len(entries), MAX_PAGE),
                offset=op.offset + len(entries),
                refresh=op.refresh_ttl,
            )
            entries += page
            if len(page) < MAX_PAGE:
                break
        return [SearchItem(**_fields(entry), score=entry.score) for entry in entries]

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        ends = {condition.match_type: tuple(condition.path) for condition in op.match_conditions or ()}
        return await self._caller.memory.list_namespaces(
            scope=self._scope,
            prefix=ends.get("prefix", ()),
            suffix=ends.get("suffix", ()),
            max_depth=op.max_depth,
            limit=op.limit,
            offset=op.offset,
        )

    async def _write(self, op: PutOp) -> None:
        memory = self._caller.memory
        if op.value is None:
            try:
                await memory.delete_entry(op.namespace, op.key, scope=self._scope)
            except NotFound:
                return  # LangGraph allows to delete a missing key
        else:
            await memory.put_entry(
                op.namespace,
                op.key,
                dict(op.value),
                scope=self._scope,
                index=self._fields if op.index is None else op.index,
                ttl=timedelta(minutes=op.ttl) if op.ttl is not None else None,
            )


def _fields(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in ("namespace", "key", "value", "created_at", "updated_at")}
