"""Rows of runs, their turns and tool calls; and the episodes that runs leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from recordari.core.checks import BEGINNING, END
from recordari.core.identity import AgentId, RunId, SessionId, UserId
from recordari.core.ids import LAST
from recordari.core.items import Item
from recordari.db.database import BatchedQuery, Transaction, all_as
from recordari.db.queries import Queries, columns_of
from recordari.errors import NotFound
from recordari.sessions.rules.runs import Run, RunStatus, RunUsage, ToolCall, Turn, TurnState
from recordari.sessions.rules.state import Holdings, NewState, StateEntry, StateOwner

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to insert, with its first turn."""

    run_id: RunId
    run_ref: UUID
    session_id: SessionId
    user_id: UserId | None
    agent_id: AgentId | None
    input: dict[str, Any]
    currency: str
    metadata: dict[str, Any]
    episodes: list[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """A tool call to insert."""

    number: int
    call_id: str | None
    name: str
    arguments: str
    result_id: UUID | None
    result_blank: str | None
    result_key: str | None
    result_bytes: int | None
    result_sha256: bytes | None
    error: str | None
    latency_ms: float | None
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What is still kept of a call's result: the item's text, or the whole body behind it."""

    number: int
    content: str
    body: bytes | None
    object_key: str | None


def _run(row: dict[str, Any]) -> Run:
    return Run(**{**row, "status": RunStatus(row["status"])})


def _turn(row: dict[str, Any]) -> Turn:
    return Turn(**{**row, "status": RunStatus(row["status"]), "episodes": tuple(row["episodes"])})


async def insert_run(tx: Transaction, new: NewRun, *, now: datetime) -> Run | None:
    """Start a run with its first turn; None when the id is taken."""
    columns = columns_of(new, input=Jsonb(new.input), metadata=Jsonb(new.metadata), now=now)
    rows = await tx.dicts(queries.insert_run, **columns)
    return _run(rows[0]) if rows else None


async def find_run(tx: Transaction, run_id: RunId, *, lock: bool = False) -> Run | None:
    """One run, locked on request."""
    rows = await tx.dicts(queries.lock_run if lock else queries.find_run, run_id=run_id)
    return _run(rows[0]) if rows else None


async def list_runs(
    tx: Transaction,
    *,
    agent_id: str | None,
    session_id: str | None,
    status: RunStatus | None,
    since: datetime | None,
    until: datetime | None,
    before: UUID | None,
    limit: int,
) -> list[Run]:
    """Runs that fit, newest first."""
    rows = await tx.dicts(
        queries.list_runs,
        agent_id=agent_id,
        session_id=session_id,
        status=status,
        since=since or BEGINNING,
        until=until or END,
        before=before or LAST,
        limit=limit,
    )
    return [_run(row) for row in rows]


async def start_turn(
    tx: Transaction, run_id: RunId, *, run_input: dict[str, Any], episodes: list[UUID], now: datetime
) -> Turn:
    """Begin the next turn of a run."""
    (row,) = await tx.dicts(queries.start_turn, run_id=run_id, input=Jsonb(run_input), episodes=episodes, now=now)
    return _turn(row)


async def end_turn(
    tx: Transaction,
    run_id: RunId,
    number: int,
    *,
    status: RunStatus,
    usage: RunUsage,
    prompt_tokens: int | None,
    error: str | None,
    data: dict[str, Any] | None,
    now: datetime,
) -> Turn | None:
    """End a turn; None when it had ended."""
    rows = await tx.dicts(
        queries.end_turn,
        run_id=run_id,
        number=number,
        status=status,
        prompt_tokens=prompt_tokens,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        cost=usage.cost,
        error=error,
        data=None if data is None else Jsonb(data),
        now=now,
    )
    return _turn(rows[0]) if rows else None


async def end_run(
    tx: Transaction,
    run_id: RunId,
    *,
    status: RunStatus,
    usage: RunUsage,
    output: Any,
    error: str | None,
    now: datetime,
) -> Run | None:
    """End a run; None when it had ended."""
    rows = await tx.dicts(
        queries.end_run,
        run_id=run_id,
        status=status,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        cost=usage.cost,
        output=None if output is None else Jsonb(output),
        error=error,
        now=now,
    )
    return _run(rows[0]) if rows else None


async def list_turns(tx: Transaction, run_id: RunId) -> list[Turn]:
    """The log of a run."""
    return [_turn(row) for row in await tx.dicts(queries.list_turns, run_id=run_id)]


async def find_turn_state(tx: Transaction, session_id: SessionId) -> TurnState | None:
    """Where the agent of a session stands; None before its first turn."""
    rows = await tx.dicts(queries.find_turn_state, session_id=session_id)
    return TurnState(**{**rows[0], "status": RunStatus(rows[0]["status"])}) if rows else None


async def insert_calls(tx: Transaction, run: Run, calls: Sequence[CallRow]) -> None:
    """Write tool calls of a run, which must be locked, at their places."""
    await tx.run(
        queries.insert_calls,
        run_id=run.run_id,
        turn=run.turns,
        numbers=[call.number for call in calls],
        call_ids=[call.call_id for call in calls],
        names=[call.name for call in calls],
        arguments=[call.arguments for call in calls],
        result_ids=[call.result_id for call in calls],
        result_blanks=[call.result_blank for call in calls],
        result_keys=[call.result_key for call in calls],
        result_bytes=[call.result_bytes for call in calls],
        result_sha256s=[call.result_sha256 for call in calls],
        errors=[call.error for call in calls],
        latencies=[call.latency_ms for call in calls],
        started_ats=[call.started_at for call in calls],
    )


async def find_calls(tx: Transaction, run_id: RunId, numbers: Sequence[int]) -> list[ToolCall]:
    """Tool calls of a run at the places given, in order."""
    rows = await tx.dicts(queries.find_calls, run_id=run_id, numbers=list(numbers))
    return [ToolCall(**row) for row in rows]


async def list_calls(tx: Transaction, run_id: RunId) -> list[ToolCall]:
    """Every tool call of a run, in order."""
    return [ToolCall(**row) for row in await tx.dicts(queries.list_calls, run_id=run_id)]


async def list_results(tx: Transaction, run_id: RunId) -> dict[int, Result]:
    """The results of a run's calls that are still kept, by the number of the call."""
    return {found.number: found for found in await tx.all(queries.list_results, Result, run_id=run_id)}


async def newest_episodes(tx: Transaction, session_id: SessionId | None, *, limit: int) -> list[Item]:
    """The newest episodes of the identity's agent that it may see, newest first."""
    who = tx.identity
    return await tx.all(
        queries.newest_episodes,
        Item,
        agent_id=who.agent_id,
        user_id=who.user_id,
        session_id=session_id,
        limit=limit,
    )


async def count_episodes(tx: Transaction) -> int:
    """How many episodes the tenant has."""
    return int(await tx.value(queries.count_episodes))


async def delete_old_episodes(tx: Transaction, *, before: datetime, limit: int) -> int:
    """Remove episodes that were written before the moment; how many."""
    return await tx.run(queries.delete_old_episodes, before=before, limit=limit)


async def delete_oldest_episodes(tx: Transaction, *, limit: int) -> int:
    """Remove so many of the oldest episodes; how many there were."""
    return await tx.run(queries.delete_oldest_episodes, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedOwner:
    """An owner that only this transaction writes to; `version` is the one for what it writes now."""

    version: int
    user_id: str | None
    closed_at: datetime | None


async def lock_owner(tx: Transaction, owner: StateOwner, *, now: datetime) -> LockedOwner:
    """Lock the owner until the end of the transaction; raise `NotFound` when it is another user's."""
    try:
        (locked,) = await tx.all(
            queries.lock_owner,
            LockedOwner,
            owner_kind=owner.kind,
            owner_id=owner.owner_id,
            user_id=tx.identity.user_id,
            now=now,
        )
    except psycopg.errors.InsufficientPrivilege:
        # Row-level security hides the row that stands in the way.
        raise NotFound(f"there is no such {owner.kind}") from None
    return locked


async def weigh_owner(tx: Transaction, owner: StateOwner, key: str, *, now: datetime) -> Holdings:
    """What the owner holds, seen from one key."""
    (held,) = await tx.all(
        queries.weigh_owner, Holdings, owner_kind=owner.kind, owner_id=owner.owner_id, key=key, now=now
    )
    return held


async def save_entry(
    tx: Transaction, owner: StateOwner, locked: LockedOwner, new: NewState, *, now: datetime
) -> StateEntry:
    """Create or replace one key."""
    (entry,) = await tx.all(
        queries.save_entry,
        StateEntry,
        owner_kind=owner.kind,
        owner_id=owner.owner_id,
        key=new.key,
        user_id=locked.user_id,
        value=new.text,
        bytes=new.bytes,
        version=locked.version,
        now=now,
        expires_at=new.expires_at,
    )
    return entry


async def find_entry(tx: Transaction, owner: StateOwner, key: str, *, now: datetime) -> StateEntry | None:
    """One live key."""
    return await tx.maybe(
        queries.find_entry, StateEntry, owner_kind=owner.kind, owner_id=owner.owner_id, key=key, now=now
    )


async def list_entries(tx: Transaction, owner: StateOwner, *, prefix: str = "", now: datetime) -> list[StateEntry]:
    """Every live key that begins with `prefix`."""
    return await tx.all(
        queries.list_entries,
        StateEntry,
        owner_kind=owner.kind,
        owner_id=owner.owner_id,
        prefix=prefix,
        now=now,
    )


def ask_entries(owner: StateOwner, *, prefix: str = "", now: datetime) -> BatchedQuery[list[StateEntry]]:
    """The same, sent along with others."""
    return BatchedQuery(
        queries.list_entries,
        all_as(StateEntry),
        owner_kind=owner.kind,
        owner_id=owner.owner_id,
        prefix=prefix,
        now=now,
    )


async def delete_entry(tx: Transaction, owner: StateOwner, key: str) -> bool:
    """Remove one key; False when there was none."""
    return (await tx.run(queries.delete_entry, owner_kind=owner.kind, owner_id=owner.owner_id, key=key)) == 1


async def find_owner_version(tx: Transaction, owner: StateOwner) -> str | None:
    """What changes with every change of the owner's keys; None where it never had any."""
    version = await tx.value(queries.find_owner_version, owner_kind=owner.kind, owner_id=owner.owner_id)
    return None if version is None else str(version)


async def renew_owner(tx: Transaction, owner: StateOwner) -> None:
    """Lock the owner, where there is one, and count its version on: its keys are about to change."""
    await tx.run(queries.renew_owner, owner_kind=owner.kind, owner_id=owner.owner_id)


async def delete_entries(tx: Transaction, owner: StateOwner) -> int:
    """Remove every key of an owner; how many there were."""
    return await tx.run(queries.delete_entries, owner_kind=owner.kind, owner_id=owner.owner_id)


async def close_owner(tx: Transaction, owner: StateOwner, *, now: datetime) -> None:
    """Refuse later writes for this owner."""
    await tx.run(
        queries.close_owner,
        owner_kind=owner.kind,
        owner_id=owner.owner_id,
        user_id=tx.identity.user_id,
        now=now,
    )


async def delete_expired(tx: Transaction, *, now: datetime, limit: int) -> int:
    """Remove some keys that have expired; how many."""
    return await tx.run(queries.delete_expired, now=now, limit=limit)


async def delete_idle_owners(tx: Transaction, *, before: datetime, limit: int) -> int:
    """Forget some owners without keys that were last written to before that; how many."""
    return await tx.run(queries.delete_idle_owners, before=before, limit=limit)
