"""State: JSON of one run or session, read by key and never searched. Every key expires, or ends with its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from recordari.core.checks import json_text
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Owner, checked_id
from recordari.errors import Conflict, InvalidInput, PreconditionFailed, QuotaExceeded

BUDGET_BYTES = 128 * 1024  # W1: a contract, not a setting
MAX_KEYS = 1_000
DEFAULT_TTL = timedelta(hours=1)
LONGEST_TTL = timedelta(days=30)
DELEGATED_PREFIX = "delegated/"  # W6: values that a task hands to its run
OWNERS_KEPT = timedelta(days=7)
"""How long an owner without keys is remembered, so that its versions keep counting."""


class OwnerKind(StrEnum):
    RUN = "run"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOwner:
    """The run or session that has the state, and its own owner."""

    kind: OwnerKind
    owner_id: str
    owned_by: Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    __pydantic_config__ = DESCRIBED

    key: str
    value: Any
    version: int
    updated_at: datetime
    expires_at: datetime | None
    """None: it ends with its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewState:
    key: str
    text: str
    expires_at: datetime | None

    @property
    def bytes(self) -> int:
        """Its share of the budget: the key, and the value as compact JSON in UTF-8."""
        return len(self.key.encode()) + len(self.text.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """The version of one key of an owner (0: there is no such key), and the size of all other keys."""

    version: int
    other_keys: int
    other_bytes: int


def owner_of(identity: Identity, kind: OwnerKind, owner_id: str | None) -> StateOwner:
    """The owner with this id, or else the run or session of the identity."""
    own = identity.run_id if kind is OwnerKind.RUN else identity.session_id
    if owner_id is None and own is None:
        raise InvalidInput(f"state of a {kind} needs its id: pass owner_id, or act in a {kind}", field="owner_id")
    return StateOwner(kind=kind, owner_id=checked_id("owner_id", owner_id or own or ""), owned_by=identity.owned_by)


def new_state(key: str, value: object, *, now: datetime, ttl: timedelta) -> NewState:
    if checked_id("key", key).startswith(DELEGATED_PREFIX):
        raise InvalidInput(f"keys that begin with {DELEGATED_PREFIX!r} are written with delegate()", field="key")
    if not timedelta(0) < ttl <= LONGEST_TTL:
        raise InvalidInput(f"ttl must be longer than 0 and at most {LONGEST_TTL.days} days", field="ttl")
    return NewState(key=key, text=json_text(value, field="value"), expires_at=now + ttl)


def new_delegated(name: str, value: object) -> NewState:
    """A value that a task hands to its run; it does not expire."""
    key = checked_id("key", DELEGATED_PREFIX + checked_id("name", name))
    return NewState(key=key, text=json_text(value, field="value"), expires_at=None)


def require_write(
    new: NewState, holdings: Holdings, owner: StateOwner, *, is_closed: bool, if_version: int | None
) -> None:
    if is_closed:
        raise Conflict(f"this {owner.kind} has ended; its state can no longer be written")
    require_version(holdings.version, if_version)
    if holdings.other_bytes + new.bytes > BUDGET_BYTES:
        raise QuotaExceeded(
            f"the state of a {owner.kind} has a budget of {BUDGET_BYTES} bytes (128 KiB) over all its keys; "
            f"the other keys use {holdings.other_bytes}, this one needs {new.bytes}. Delete keys, or store large "
            "values elsewhere",
            budget=BUDGET_BYTES,
            used=holdings.other_bytes,
            needed=new.bytes,
        )
    if holdings.other_keys >= MAX_KEYS:
        raise QuotaExceeded(
            f"the state of a {owner.kind} may have {MAX_KEYS} keys; delete some of them",
            budget=MAX_KEYS,
            used=holdings.other_keys,
            needed=1,
        )


def require_version(version: int, if_version: int | None) -> None:
    """Raise `PreconditionFailed` unless the key is at the version that the caller named (0: it is not there)."""
    if if_version is not None and if_version != version:
        raise PreconditionFailed(version=version)


def live(entries: Sequence[StateEntry], now: datetime) -> list[StateEntry]:
    """The entries that have not expired."""
    return [entry for entry in entries if entry.expires_at is None or entry.expires_at > now]


_ENTRIES = TypeAdapter(list[StateEntry])


def snapshot_text(entries: list[StateEntry]) -> str:
    """All state of an owner as text for the cache."""
    return _ENTRIES.dump_json(entries).decode()


def read_snapshot(text: str) -> list[StateEntry]:
    return _ENTRIES.validate_json(text)
