"""Rows of runs, their turns, tool calls and episodes; and of state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.checks import BEGINNING, END
from recordari.core.identity import AgentId, Owner, RunId, SessionId, UserId
from recordari.core.ids import LAST
from recordari.core.items import Item
from recordari.db.database import BatchedQuery, Transaction
from recordari.db.queries import Queries, all_as, columns_of
from recordari.sessions.rules.runs import Run, RunStatus, RunUsage, ToolCall, Turn, TurnState
from recordari.sessions.rules.sessions import Session
from recordari.sessions.rules.state import Holdings, NewState, StateEntry, StateOwner
from recordari.sessions.storage import arrays_of

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    run_id: RunId
    run_ref: UUID
    session_id: SessionId
    owned_by: Owner
    user_id: UserId | None
    agent_id: AgentId | None
    input: dict[str, Any]
    currency: str
    metadata: dict[str, Any]
    episodes: list[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    number: int
    call_id: str | None
    name: str
    arguments: str
    result_id: UUID | None
    result_blank: str | None
    result_key: str | None
    result_bytes: int | None
    result_sha256: bytes | None
    result_type: str | None
    error: str | None
    latency_ms: float | None
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The stored result of a call: the item's text, or the whole body behind it."""

    number: int
    content: str
    body: bytes | None
    object_key: str | None


async def insert_run(tx: Transaction, new: NewRun, *, now: datetime) -> Run | None:
    """Start a run with its first turn; None when the id is taken."""
    columns = columns_of(new, input=Jsonb(new.input), metadata=Jsonb(new.metadata), now=now)
    return await tx.maybe(queries.insert_run, Run, **columns)


async def find_run(tx: Transaction, owner: Owner, run_id: RunId, *, lock: bool = False) -> Run | None:
    return await tx.maybe(queries.lock_run if lock else queries.find_run, Run, owned_by=owner, run_id=run_id)


async def list_run_owners(tx: Transaction, run_id: RunId) -> list[Owner]:
    """Owners of runs with this id: the identity's own first, and at most two."""
    rows = await tx.dicts(queries.list_run_owners, own=tx.identity.owned_by, run_id=run_id)
    return [row["owned_by"] for row in rows]


def _key(run: Run) -> dict[str, str]:
    return {"run_id": run.run_id, "owned_by": run.owned_by}


async def list_runs(
    tx: Transaction, *, since: datetime | None, until: datetime | None, before: UUID | None, **filters: object
) -> list[Run]:
    return await tx.all(
        queries.list_runs, Run, since=since or BEGINNING, until=until or END, before=before or LAST, **filters
    )


async def start_turn(
    tx: Transaction, run: Run, *, run_input: dict[str, Any], episodes: list[UUID], now: datetime
) -> Turn:
    (turn,) = await tx.all(queries.start_turn, Turn, **_key(run), input=Jsonb(run_input), episodes=episodes, now=now)
    return turn


async def end_turn(
    tx: Transaction,
    run: Run,
    *,
    status: RunStatus,
    now: datetime,
    usage: RunUsage | None = None,
    prompt_tokens: int | None = None,
    error: str | None = None,
    data: dict[str, Any] | None = None,
) -> Turn | None:
    """End the last turn of a run; None when it had ended."""
    columns = columns_of(
        usage or RunUsage(),
        **_key(run),
        number=run.turns,
        status=status,
        prompt_tokens=prompt_tokens,
        error=error,
        data=None if data is None else Jsonb(data),
        now=now,
    )
    return await tx.maybe(queries.end_turn, Turn, **columns)


async def end_run(
    tx: Transaction,
    run: Run,
    *,
    status: RunStatus,
    usage: RunUsage,
    output: Any,
    error: str | None,
    now: datetime,
) -> Run | None:
    """End a run; None when it had ended."""
    output = None if output is None else Jsonb(output)
    columns = columns_of(usage, **_key(run), status=status, output=output, error=error, now=now)
    return await tx.maybe(queries.end_run, Run, **columns)


async def list_turns(tx: Transaction, run: Run) -> list[Turn]:
    return await tx.all(queries.list_turns, Turn, **_key(run))


async def find_turn_state(tx: Transaction, session: Session) -> TurnState | None:
    return await tx.maybe(queries.find_turn_state, TurnState, session_id=session.session_id, owned_by=session.owned_by)


async def insert_calls(tx: Transaction, run: Run, calls: Sequence[CallRow]) -> None:
    """Write tool calls of a run, which must be locked, at their positions."""
    await tx.run(queries.insert_calls, **arrays_of(CallRow, calls), **_key(run), turn=run.turns)


async def find_calls(tx: Transaction, run: Run, numbers: Sequence[int]) -> list[ToolCall]:
    return await tx.all(queries.find_calls, ToolCall, **_key(run), numbers=list(numbers))


async def list_calls(tx: Transaction, run: Run) -> list[ToolCall]:
    return await tx.all(queries.list_calls, ToolCall, **_key(run))


async def list_results(tx: Transaction, run: Run) -> dict[int, Result]:
    """The results of a run's calls that are still stored, by the number of the call."""
    return {result.number: result for result in await tx.all(queries.list_results, Result, **_key(run))}


async def newest_episodes(tx: Transaction, session_id: SessionId | None, *, limit: int) -> list[Item]:
    """The newest episodes of the identity's agent that it may see, newest first."""
    identity = tx.identity
    return await tx.all(
        queries.newest_episodes,
        Item,
        agent_id=identity.agent_id,
        user_id=identity.user_id,
        owned_by=identity.owned_by,
        session_id=session_id,
        limit=limit,
    )


async def count_episodes(tx: Transaction) -> int:
    return int(await tx.value(queries.count_episodes))


async def delete_old_episodes(tx: Transaction, *, before: datetime, limit: int) -> int:
    return await tx.run(queries.delete_old_episodes, before=before, limit=limit)


async def delete_oldest_episodes(tx: Transaction, *, limit: int) -> int:
    return await tx.run(queries.delete_oldest_episodes, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedOwner:
    """An owner that only this transaction writes to; `version` is the one that its next write gets."""

    version: int
    closed_at: datetime | None


def _of(owner: StateOwner, **others: Any) -> dict[str, Any]:
    return {"owner_kind": owner.kind, "owner_id": owner.owner_id, "owned_by": owner.owned_by, **others}


async def list_state_owners(tx: Transaction, owner: StateOwner) -> list[Owner]:
    """Owners of the run or session with this id, or of state of it: the identity's own first, and at most two."""
    rows = await tx.dicts(
        queries.list_state_owners, own=tx.identity.owned_by, owner_kind=owner.kind, owner_id=owner.owner_id
    )
    return [row["owned_by"] for row in rows]


async def lock_owner(tx: Transaction, owner: StateOwner, *, now: datetime) -> LockedOwner:
    """Lock the owner until the end of the transaction."""
    (locked,) = await tx.all(queries.lock_owner, LockedOwner, **_of(owner, now=now))
    return locked


async def weigh_owner(tx: Transaction, owner: StateOwner, key: str, *, now: datetime) -> Holdings:
    (holdings,) = await tx.all(queries.weigh_owner, Holdings, **_of(owner, key=key, now=now))
    return holdings


async def save_entry(
    tx: Transaction, owner: StateOwner, locked: LockedOwner, new: NewState, *, now: datetime
) -> StateEntry:
    columns = columns_of(new, bytes=new.bytes, version=locked.version, now=now)
    (entry,) = await tx.all(queries.save_entry, StateEntry, **_of(owner, **columns))
    return entry


async def find_entry(tx: Transaction, owner: StateOwner, key: str, *, now: datetime) -> StateEntry | None:
    return await tx.maybe(queries.find_entry, StateEntry, **_of(owner, key=key, now=now))


async def list_entries(tx: Transaction, owner: StateOwner, *, prefix: str = "", now: datetime) -> list[StateEntry]:
    return await tx.all(queries.list_entries, StateEntry, **_of(owner, prefix=prefix, now=now))


def ask_entries(owner: StateOwner, *, prefix: str = "", now: datetime) -> BatchedQuery[list[StateEntry]]:
    return BatchedQuery(queries.list_entries, all_as(StateEntry), **_of(owner, prefix=prefix, now=now))


async def delete_entry(tx: Transaction, owner: StateOwner, key: str) -> None:
    await tx.run(queries.delete_entry, **_of(owner, key=key))


async def find_owner_version(tx: Transaction, owner: StateOwner) -> str | None:
    """A value that changes with every change of the owner's keys; None if it never had any."""
    version = await tx.value(queries.find_owner_version, **_of(owner))
    return None if version is None else str(version)


async def renew_owner(tx: Transaction, owner: StateOwner) -> None:
    await tx.run(queries.renew_owner, **_of(owner))


async def delete_entries(tx: Transaction, owner: StateOwner) -> None:
    await tx.run(queries.delete_entries, **_of(owner))


async def close_owner(tx: Transaction, owner: StateOwner, *, now: datetime) -> None:
    """Refuse later writes for this owner."""
    await tx.run(queries.close_owner, **_of(owner, now=now))


async def delete_expired(tx: Transaction, *, now: datetime, limit: int) -> int:
    return await tx.run(queries.delete_expired, now=now, limit=limit)


async def delete_idle_owners(tx: Transaction, *, before: datetime, limit: int) -> int:
    return await tx.run(queries.delete_idle_owners, before=before, limit=limit)
