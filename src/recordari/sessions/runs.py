"""Runs inside sessions: start and end, turns, tool calls, replay."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.checks import check_times
from recordari.core.identity import Identity, RunId, checked_id, optional_choice
from recordari.core.ids import new_id
from recordari.core.items import Item, Kind, NewItem
from recordari.core.tokens import cut_to_tokens
from recordari.db.database import Transaction
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.memory import remember
from recordari.memory import storage as memory_storage
from recordari.memory.objects import Objects
from recordari.memory.remember import MAX_BATCH, Ready, Remembered, Written, with_source_ref
from recordari.privacy.sanitise import sanitise_json
from recordari.sessions import run_storage, storage
from recordari.sessions.messages import with_usage
from recordari.sessions.rules.runs import (
    EPISODES_GIVEN,
    MOST_EPISODES_GIVEN,
    NewToolCall,
    Replay,
    Run,
    RunStatus,
    RunUsage,
    StartedTurn,
    ToolCall,
    Turn,
    TurnState,
    arguments_text,
    check_end,
    checked_call,
    checked_json,
    error_text,
    numbers_of,
    read_arguments,
    read_result,
    run_input,
    shown_result,
    with_more_episodes,
)
from recordari.sessions.rules.sessions import NoteKind, SessionNote, may_see, sole_owner
from recordari.sessions.rules.summaries import LONGEST_POINT
from recordari.sessions.run_storage import CallRow, NewRun, Result
from recordari.sessions.sessions import entered, find_newest, keep_notes, listed_owner, own_only
from recordari.sessions.state import drop_state_of_run
from recordari.tenants.tenants import page_size

NO_SUCH_RUN = "there is no such run"
USEFUL_RESULT_IMPORTANCE = 0.6


async def start_run(
    resources: Resources,
    identity: Identity,
    *,
    run_id: str | None = None,
    session_id: str | None = None,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the column, the field and the JSON are called so
    episodes: int = EPISODES_GIVEN,
    currency: str = "USD",
    metadata: Mapping[str, Any] | None = None,
) -> StartedTurn:
    """Start a run and its first turn in a session (a new one unless named); the same id again is the same run.

    The answer has the agent's last episodes, oldest first, and the run's input records which they were (E2).
    """
    _check_currency(currency)
    named = RunId(checked_id("run_id", run_id)) if run_id is not None else None
    if named is not None and (started := await _started_before(resources, identity, named)) is not None:
        return started
    now = resources.clock()
    input, metadata = await _sanitised(resources, identity, dict(input or {}), dict(metadata or {}))  # noqa: A001
    async with entered(resources, identity, session_id or identity.session_id) as (tx, current, _):
        session = current.session
        recent = await _last_episodes(tx, session.session_id, episodes)
        ids = [episode.item_id for episode in recent]
        ref = new_id()
        run = await run_storage.insert_run(
            tx,
            NewRun(
                run_id=named or RunId(str(ref)),
                run_ref=ref,
                session_id=session.session_id,
                owned_by=session.owned_by,
                user_id=session.user_id,
                # A session without a user is its agent's, and so are its runs.
                agent_id=(identity.agent_id if session.user_id is not None else None) or session.agent_id,
                input=run_input(input, ids),
                currency=currency,
                metadata=checked_json("metadata", metadata),
                episodes=ids,
            ),
            now=now,
        )
        if run is None:  # started by another call at this moment
            raise Conflict("this run is being started by another call; repeat yours to see it")
        await storage.touch(tx, session.owned_by, session.session_id, now=now)
        (turn,) = await run_storage.list_turns(tx, run)
    return StartedTurn(run=run, turn=turn, episodes=tuple(recent))


async def _sanitised(resources: Resources, identity: Identity, *values: Any) -> list[Any]:
    """Mask personal data and secrets as the tenant's policy says."""
    return [await sanitise_json(resources, identity, value) for value in values]


def _check_currency(currency: str) -> None:
    if len(currency) != 3 or not currency.isascii() or not currency.isupper():
        raise InvalidInput("currency must be a code of three capital letters, such as USD", field="currency")


async def _last_episodes(tx: Transaction, session_id: Any, number: int) -> list[Item]:
    if not 0 <= number <= MOST_EPISODES_GIVEN:
        raise InvalidInput(f"episodes must lie between 0 and {MOST_EPISODES_GIVEN}", field="episodes")
    if number == 0 or tx.identity.agent_id is None:
        return []
    return (await run_storage.newest_episodes(tx, session_id, limit=number))[::-1]


async def _started_before(resources: Resources, identity: Identity, run_id: RunId) -> StartedTurn | None:
    async with resources.database.transaction(identity) as tx:
        run = await _find(tx, run_id)
        if run is None:
            return None
        _shown(identity, run)
        turn = (await run_storage.list_turns(tx, run))[-1]
        items = await memory_storage.find_items(tx, turn.episodes)
    episodes = tuple(items[item_id] for item_id in turn.episodes if item_id in items)
    return StartedTurn(run=run, turn=turn, episodes=episodes, was_new=False)


async def _find(tx: Transaction, run_id: RunId) -> Run | None:
    """The identity's run with this id; an administrator who names no user finds the only one of that id."""
    own = tx.identity.owned_by
    run = await run_storage.find_run(tx, own, run_id)
    if run is None and tx.identity.spans_users:
        owner = sole_owner(own, await run_storage.list_run_owners(tx, run_id), noun="run")
        run = await run_storage.find_run(tx, owner, run_id)
    return run


def _shown(identity: Identity, run: Run | None) -> Run:
    if run is None or not may_see(identity, user_id=run.user_id, agent_id=run.agent_id):
        raise NotFound(NO_SUCH_RUN)
    return run


async def _locked(resources: Resources, tx: Transaction, run_id: str) -> Run:
    """Lock the run after its session: all code that needs both locks keeps that order. It counts as activity."""
    run = _shown(tx.identity, await _find(tx, RunId(run_id)))
    await storage.touch(tx, run.owned_by, run.session_id, now=resources.clock())
    return _shown(tx.identity, await run_storage.find_run(tx, run.owned_by, run.run_id, lock=True))


async def start_turn(
    resources: Resources, identity: Identity, run_id: str, *, episodes: int = EPISODES_GIVEN
) -> StartedTurn:
    """Begin the next turn of a run; a turn that is still running is completed first."""
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        run = await _locked(resources, tx, run_id)
        if run.status is not RunStatus.RUNNING:
            raise Conflict(f"the run has {run.status} already; start another one")
        await run_storage.end_turn(tx, run, status=RunStatus.COMPLETED, now=now)
        recent = await _last_episodes(tx, run.session_id, episodes)
        ids = [episode.item_id for episode in recent]
        extended = with_more_episodes(run.input, ids)
        turn = await run_storage.start_turn(tx, run, run_input=extended, episodes=ids, now=now)
        run = replace(run, input=extended, turns=turn.number)
    return StartedTurn(run=run, turn=turn, episodes=tuple(recent))


async def end_turn(
    resources: Resources,
    identity: Identity,
    run_id: str,
    *,
    usage: RunUsage | None = None,
    prompt_tokens: int | None = None,
    state: Mapping[str, Any] | None = None,
    error: str | None = None,
) -> Turn:
    """End the current turn of a run: its cost, the size of its prompt, and the turn state to keep."""
    now = resources.clock()
    state, error = await _sanitised(resources, identity, None if state is None else dict(state), error)
    data = None if state is None else checked_json("state", dict(state))
    async with resources.database.transaction(identity) as tx:
        run = await _locked(resources, tx, run_id)
        ended = await run_storage.end_turn(
            tx,
            run,
            status=RunStatus.COMPLETED if error is None else RunStatus.FAILED,
            now=now,
            usage=usage,
            prompt_tokens=prompt_tokens,
            error=None if error is None else error_text(error),
            data=data,
        )
        if ended is None:
            raise Conflict("this turn has ended already; start the next one")
        if prompt_tokens is not None:
            newest = await storage.find_newest(tx, run.owned_by, run.session_id)
            assert newest is not None
            session = await with_usage(resources, tx, newest, prompt_tokens)
            await storage.save_window(tx, session, now=now)
    resources.telemetry.count_run(identity.tenant_id, run.currency, usage)
    return ended


async def complete_run(
    resources: Resources, identity: Identity, run_id: str, *, output: Any = None, usage: RunUsage | None = None
) -> Run:
    """End a run that succeeded; `usage` is what its turns have not reported. Completed again with the same output it stays
    as it was; another output is refused.
    """
    return await _end_run(resources, identity, run_id, RunStatus.COMPLETED, output=output, usage=usage)


async def fail_run(
    resources: Resources,
    identity: Identity,
    run_id: str,
    *,
    error: str,
    output: Any = None,
    usage: RunUsage | None = None,
) -> Run:
    """End a run that failed, and say why. Failed again it stays as it was; another output is refused."""
    error = error_text(error)
    return await _end_run(resources, identity, run_id, RunStatus.FAILED, output=output, usage=usage, error=error)


async def _end_run(
    resources: Resources,
    identity: Identity,
    run_id: str,
    status: RunStatus,
    *,
    output: Any,
    usage: RunUsage | None,
    error: str | None = None,
) -> Run:
    now = resources.clock()
    output, error = await _sanitised(resources, identity, checked_json("output", output), error)
    async with resources.database.transaction(identity) as tx:
        run = await _locked(resources, tx, run_id)
        if not check_end(run, status, output=output):
            return run
        await run_storage.end_turn(tx, run, status=status, now=now, error=error)
        ended = await run_storage.end_run(
            tx, run, status=status, usage=usage or RunUsage(), output=output, error=error, now=now
        )
        assert ended is not None
        await drop_state_of_run(tx, resources, run.owned_by, run.run_id)
    resources.telemetry.count_run(identity.tenant_id, run.currency, usage)
    return ended


async def get_run(resources: Resources, identity: Identity, run_id: str) -> Run:
    """Read one run."""
    async with resources.database.transaction(identity) as tx:
        return _shown(identity, await _find(tx, RunId(run_id)))


async def get_turn_state(resources: Resources, identity: Identity, session_id: str) -> TurnState:
    """The turn state of a session: its last turn and the data stored with it. There is none before the first turn."""
    async with resources.database.transaction(identity) as tx:
        session = (await find_newest(tx, session_id)).session
        turn_state = await run_storage.find_turn_state(tx, session)
        if turn_state is None:
            raise NotFound("this session has no turn yet")
        _shown(identity, await run_storage.find_run(tx, session.owned_by, turn_state.run_id))
        return turn_state


async def list_runs(
    resources: Resources,
    identity: Identity,
    *,
    agent_id: str | None = None,
    session_id: str | None = None,
    status: RunStatus | str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[Run]:
    """Runs that match, newest first; `before` is the `run_ref` of the last one on the page before."""
    status = optional_choice("status", RunStatus, status)
    agent_id, _ = own_only(identity, agent_id=agent_id, user_id=None)
    check_times(since=since, until=until)
    async with resources.database.transaction(identity) as tx:
        return await run_storage.list_runs(
            tx,
            owned_by=listed_owner(identity),
            agent_id=agent_id,
            session_id=session_id,
            status=status,
            since=since,
            until=until,
            before=before,
            limit=page_size(limit),
        )


async def record_tool_calls(
    resources: Resources, identity: Identity, run_id: str, calls: Sequence[NewToolCall]
) -> list[ToolCall]:
    """Append tool calls to a run in this order, all of them or none.

    A result becomes an item of the session, so that it can be recalled; the call points to it.
    """
    if len(calls) > MAX_BATCH:
        raise InvalidInput(f"at most {MAX_BATCH} tool calls at a time; send the rest in another call")
    now = resources.clock()
    calls = await sanitise_calls(resources, identity, calls)
    rows = [_call_row(checked_call(call), now=now) for call in calls]
    run = await get_run(resources, identity, run_id)
    ready = await _ready_results(resources, identity, run, calls)
    async with resources.database.transaction(identity) as tx:
        run = await _locked(resources, tx, run_id)
        if run.status is not RunStatus.RUNNING:
            raise Conflict(f"the run has {run.status} already; record its calls before it ends")
        numbers = numbers_of(calls, run.calls)
        fresh = {number for number in numbers if number > run.calls}
        results, changes = await _save_results(tx, run, ready, calls, numbers, fresh)
        rows = [_numbered(row, number, results.get(number)) for row, number in zip(rows, numbers, strict=True)]
        await run_storage.insert_calls(tx, run, [row for row in rows if row.number in fresh])
        recorded = await run_storage.find_calls(tx, run, numbers)
        _check_same(rows, recorded)
        await _note_useful(resources, tx, run, zip(calls, numbers, strict=True), results)
    changes.wake(resources)
    for row in rows:
        if row.number in fresh and row.latency_ms is not None:
            failed = row.error is not None
            resources.telemetry.count_agent_tool(row.name, seconds=row.latency_ms / 1000, failed=failed)
    return recorded


def _call_row(call: NewToolCall, *, now: datetime) -> CallRow:
    """The row of a call; its number and the item of its result follow."""
    result = read_result(call)
    return CallRow(
        number=0,
        call_id=call.call_id,
        name=call.name,
        arguments=arguments_text(call.arguments),
        result_id=None,
        result_blank=call.result if call.has_blank_result else None,
        result_key=None,
        result_bytes=None if result is None else len(result.body),
        result_sha256=None if result is None else hashlib.sha256(result.body).digest(),
        result_type=None if result is None else result.media_type,
        error=None if call.error is None else error_text(call.error),
        latency_ms=call.latency_ms,
        started_at=call.started_at or now,
    )


def _numbered(row: CallRow, number: int, result: Remembered | None) -> CallRow:
    if result is None:
        return replace(row, number=number)
    return replace(row, number=number, result_id=result.id, result_key=result.payload_key)


async def _ready_results(resources: Resources, identity: Identity, run: Run, calls: Sequence[NewToolCall]) -> Ready:
    ids: dict[str, Any] = {name: getattr(run, name) for name in ("user_id", "agent_id", "session_id", "run_id")}
    identity = replace(identity, **ids)  # the result belongs to the owner of the run
    given = [(call, result) for call in calls if not call.has_blank_result and (result := read_result(call))]
    news = [
        NewItem(
            content=result.content,
            kind=Kind.TOOL_OUTPUT,
            source_ref=f"{run.run_id}:new",
            speaker=call.name,
            event_time=call.started_at,
            metadata={"tool": call.name, **({"call_id": call.call_id} if call.call_id else {})},
        )
        for call, result in given
    ]
    bodies = {
        index: (result.body, str(result.media_type)) for index, (call, result) in enumerate(given) if call.has_bytes
    }
    return await remember.make_ready(resources, identity, news, bodies=bodies)


async def _save_results(
    tx: Transaction,
    run: Run,
    ready: Ready,
    calls: Sequence[NewToolCall],
    numbers: Sequence[int],
    fresh: set[int],
) -> tuple[dict[int, Remembered], Written]:
    """Save the results of new calls: the items by the number of their call, and what they changed."""
    with_result = [number for call, number in zip(calls, numbers, strict=True) if not call.has_blank_result]
    rows = {
        number: with_source_ref(row, f"{run.run_id}:{number}")
        for row, number in zip(ready.rows, with_result, strict=True)
        if number in fresh
    }
    remembered, changes = await remember.save_ready(tx, replace(ready, rows=tuple(rows.values())))
    return dict(zip(rows, remembered, strict=True)), changes


def _check_same(rows: Sequence[CallRow], recorded: Sequence[ToolCall]) -> None:
    by_number = {call.number: call for call in recorded}
    for row in rows:
        call = by_number[row.number]
        if (call.name, call.arguments, call.result_sha256) != (row.name, row.arguments, row.result_sha256):
            raise Conflict(f"another tool call of this run has the number {row.number} already", field="number")


async def _note_useful(
    resources: Resources,
    tx: Transaction,
    run: Run,
    calls: Iterable[tuple[NewToolCall, int]],
    results: Mapping[int, Remembered],
) -> None:
    now = resources.clock()
    notes = [
        SessionNote(
            note_id=new_id(),
            kind=NoteKind.TOOL_RESULT,
            content=f"{call.name}: {cut_to_tokens(said.content.strip(), LONGEST_POINT)}",
            importance=USEFUL_RESULT_IMPORTANCE,
            item_id=result.id,
            created_at=now,
        )
        for call, number in calls
        if call.useful and (said := read_result(call)) and (result := results.get(number))
    ]
    if notes:
        session = await storage.find_session(tx, run.owned_by, run.session_id)
        assert session is not None
        await keep_notes(tx, session, notes, now=now)


async def replay_run(resources: Resources, identity: Identity, run_id: str, *, results: bool = True) -> Replay:
    """A run's turns and tool calls in order, exactly as they were recorded.

    With `results` each call has its whole result too, if it is still stored; `result_sha256` shows if it is the same.
    """
    async with resources.database.transaction(identity) as tx:
        run = _shown(identity, await _find(tx, RunId(run_id)))
        turns = await run_storage.list_turns(tx, run)
        calls = await run_storage.list_calls(tx, run)
        stored = await run_storage.list_results(tx, run) if results else {}
    calls = [
        replace(call, result=shown_result(await _whole(resources, stored[call.number]), call.result_type))
        if call.number in stored
        else call
        for call in calls
    ]
    return Replay(run=run, turns=tuple(turns), calls=tuple(calls))


async def _whole(resources: Resources, result: Result) -> bytes:
    if result.body is not None:
        return result.body
    if result.object_key is not None:
        return await resources.get(Objects).get(result.object_key)
    return result.content.encode()


async def sanitise_calls(resources: Resources, identity: Identity, calls: Sequence[NewToolCall]) -> list[NewToolCall]:
    """Mask arguments, results and errors of tool calls as the tenant's policy says; bytes are kept as they are."""
    fields = [
        {
            "arguments": read_arguments(call.arguments),
            **({} if call.has_bytes else {"result": call.result}),
            "error": call.error,
        }
        for call in calls
    ]
    cleaned = await sanitise_json(resources, identity, fields)
    # A call without findings keeps its arguments to the letter.
    return [
        replace(call, **masked) if masked != given else call
        for call, given, masked in zip(calls, fields, cleaned, strict=True)
    ]
