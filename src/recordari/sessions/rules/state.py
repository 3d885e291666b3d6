"""State: keyed JSON of one run or session. Read by key, never searched; each key ends by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from recordari.core.checks import json_text
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, checked_id
from recordari.errors import Conflict, InvalidInput, PreconditionFailed, QuotaExceeded

BUDGET_BYTES = 128 * 1024  # W1: a contract, not a setting
MAX_KEYS = 1_000
DEFAULT_TTL = timedelta(hours=1)
LONGEST_TTL = timedelta(days=30)
DELEGATED_PREFIX = "delegated/"  # W6: what a task hands to its run
OWNERS_KEPT = timedelta(days=7)
"""For how long an owner without keys is remembered, so that its versions go on counting."""


class OwnerKind(StrEnum):
    """What state belongs to, and ends with at the latest."""

    RUN = "run"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOwner:
    """The run or session that state belongs to."""

    kind: OwnerKind
    owner_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """One key and its value."""

    __pydantic_config__ = DESCRIBED

    key: str
    value: Any
    version: int
    updated_at: datetime
    expires_at: datetime | None
    """None: it ends with its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewState:
    """A value ready to be written."""

    key: str
    text: str
    expires_at: datetime | None

    @property
    def bytes(self) -> int:
        """What it takes of the budget: the key and the value as compact JSON in UTF-8."""
        return len(self.key.encode()) + len(self.text.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What an owner has, seen from one key: that key's version (0: none), and the weight of all others."""

    version: int
    other_keys: int
    other_bytes: int


def owner_of(identity: Identity, kind: OwnerKind, owner_id: str | None) -> StateOwner:
    """Name the owner: the id given, or else the run or session of the identity."""
    own = identity.run_id if kind is OwnerKind.RUN else identity.session_id
    if owner_id is None and own is None:
        raise InvalidInput(f"state of a {kind} needs its id: give owner_id, or act as a {kind}", field="owner_id")
    return StateOwner(kind=kind, owner_id=checked_id("owner_id", owner_id or own or ""))


def new_state(key: str, value: object, *, now: datetime, ttl: timedelta) -> NewState:
    """Check a key, its value and its lifetime."""
    if checked_id("key", key).startswith(DELEGATED_PREFIX):
        raise InvalidInput(f"keys that begin with {DELEGATED_PREFIX!r} are written with delegate()", field="key")
    if not timedelta(0) < ttl <= LONGEST_TTL:
        raise InvalidInput(f"ttl must be longer than 0 and at most {LONGEST_TTL.days} days", field="ttl")
    return NewState(key=key, text=json_text(value, field="value"), expires_at=now + ttl)


def new_delegated(name: str, value: object) -> NewState:
    """Check what a task hands to its run; it has no end of its own."""
    key = checked_id("key", DELEGATED_PREFIX + checked_id("name", name))
    return NewState(key=key, text=json_text(value, field="value"), expires_at=None)


def require_write(new: NewState, held: Holdings, owner: StateOwner, *, is_closed: bool, if_version: int | None) -> None:
    """Raise unless the owner may write this now."""
    if is_closed:
        raise Conflict(f"this {owner.kind} has ended; its state cannot be written any more")
    require_version(held.version, if_version)
    if held.other_bytes + new.bytes > BUDGET_BYTES:
        raise QuotaExceeded(
            f"the state of a {owner.kind} has a budget of {BUDGET_BYTES} bytes (128 KiB) over all its keys; "
            f"the other keys hold {held.other_bytes}, this one needs {new.bytes}. Delete keys, or keep large "
            "values elsewhere",
            budget=BUDGET_BYTES,
            used=held.other_bytes,
            needed=new.bytes,
        )
    if held.other_keys >= MAX_KEYS:
        raise QuotaExceeded(
            f"the state of a {owner.kind} may have {MAX_KEYS} keys; delete some of them",
            budget=MAX_KEYS,
            used=held.other_keys,
            needed=1,
        )


def require_version(version: int, if_version: int | None) -> None:
    """Raise `PreconditionFailed` unless the key is at the version that the caller named (0: it is not there)."""
    if if_version is not None and if_version != version:
        raise PreconditionFailed(version=version)


def live(entries: Sequence[StateEntry], now: datetime) -> list[StateEntry]:
    """Leave out what has expired."""
    return [entry for entry in entries if entry.expires_at is None or entry.expires_at > now]


def snapshot_text(entries: Sequence[StateEntry]) -> str:
    """Write all state of an owner for a cache."""
    return json.dumps(
        [
            [each.key, each.value, each.version, each.updated_at.isoformat(), _moment_text(each.expires_at)]
            for each in entries
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def read_snapshot(text: str) -> list[StateEntry]:
    """Read what `snapshot_text` wrote."""
    return [
        StateEntry(
            key=key,
            value=value,
            version=version,
            updated_at=datetime.fromisoformat(updated_at),
            expires_at=datetime.fromisoformat(expires_at) if expires_at is not None else None,
        )
        for key, value, version, updated_at, expires_at in json.loads(text)
    ]


def _moment_text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
