"""Documents by namespace and key, that can be searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from recordari.core.identity import Scope, optional_choice
from recordari.entries import entries
from recordari.entries.rules import Entry, FoundEntry
from recordari.verbs.bound import Bound


class EntryVerbs(Bound):
    """The verbs of entries."""

    async def put_entry(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        *,
        scope: Scope | str | None = None,
        index: Sequence[str] | bool | None = None,
        ttl: timedelta | None = None,
        if_version: int | None = None,
    ) -> Entry:
        """Keep a document under a key of the user or agent, in place of one that was there."""
        chosen = optional_choice("scope", Scope, scope)
        return await entries.put_entry(
            self.resources,
            self.identity,
            namespace,
            key,
            value,
            scope=chosen,
            index=index,
            ttl=ttl,
            if_version=if_version,
        )

    async def get_entry(
        self, namespace: Sequence[str], key: str, *, scope: Scope | str | None = None, refresh: bool = True
    ) -> Entry:
        """One document; reading it renews its time unless `refresh` is false."""
        chosen = optional_choice("scope", Scope, scope)
        return await entries.get_entry(self.resources, self.identity, namespace, key, scope=chosen, refresh=refresh)

    async def delete_entry(
        self, namespace: Sequence[str], key: str, *, scope: Scope | str | None = None, if_version: int | None = None
    ) -> None:
        """Remove a document, and what recall finds of it."""
        chosen = optional_choice("scope", Scope, scope)
        await entries.delete_entry(self.resources, self.identity, namespace, key, scope=chosen, if_version=if_version)

    async def search_entries(
        self, prefix: Sequence[str] = (), *, scope: Scope | str | None = None, **more: Any
    ) -> list[FoundEntry]:
        """Documents below a namespace; `more` are `query`, `filter`, `limit`, `offset` and `refresh`."""
        chosen = optional_choice("scope", Scope, scope)
        return await entries.search_entries(self.resources, self.identity, prefix, scope=chosen, **more)

    async def list_namespaces(self, *, scope: Scope | str | None = None, **more: Any) -> list[tuple[str, ...]]:
        """Namespaces that hold something; `more` are `prefix`, `suffix`, `max_depth`, `limit` and `offset`."""
        chosen = optional_choice("scope", Scope, scope)
        return await entries.list_namespaces(self.resources, self.identity, scope=chosen, **more)
