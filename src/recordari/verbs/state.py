"""JSON by key of a run or session."""

from __future__ import annotations

from datetime import timedelta

from recordari.core.identity import checked_choice
from recordari.sessions import state
from recordari.sessions.rules.state import OwnerKind, StateEntry
from recordari.verbs.bound import Bound


class StateVerbs(Bound):
    """The verbs of state."""

    async def set_state(
        self,
        key: str,
        value: object,
        *,
        owner: OwnerKind | str = OwnerKind.SESSION,
        owner_id: str | None = None,
        ttl: timedelta | None = None,
        if_version: int | None = None,
    ) -> StateEntry:
        """Keep JSON under a key of this session or run; with `if_version` only if the key is at that one."""
        return await state.set_state(
            self.resources,
            self.identity,
            key,
            value,
            owner=checked_choice("owner", OwnerKind, owner),
            owner_id=owner_id,
            ttl=ttl,
            if_version=if_version,
        )

    async def get_state(
        self, key: str, *, owner: OwnerKind | str = OwnerKind.SESSION, owner_id: str | None = None
    ) -> StateEntry:
        """One key that has not expired."""
        return await state.get_state(
            self.resources, self.identity, key, owner=checked_choice("owner", OwnerKind, owner), owner_id=owner_id
        )

    async def list_state(
        self, *, owner: OwnerKind | str = OwnerKind.SESSION, owner_id: str | None = None, prefix: str = ""
    ) -> list[StateEntry]:
        """Every key of this session or run that begins with `prefix`."""
        return await state.list_state(
            self.resources,
            self.identity,
            owner=checked_choice("owner", OwnerKind, owner),
            owner_id=owner_id,
            prefix=prefix,
        )

    async def delete_state(
        self,
        key: str,
        *,
        owner: OwnerKind | str = OwnerKind.SESSION,
        owner_id: str | None = None,
        if_version: int | None = None,
    ) -> None:
        """Remove one key."""
        await state.delete_state(
            self.resources,
            self.identity,
            key,
            owner=checked_choice("owner", OwnerKind, owner),
            owner_id=owner_id,
            if_version=if_version,
        )
