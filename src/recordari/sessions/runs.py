"""Runs inside sessions: start, turns, tool calls, end; and the replay of one."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.checks import check_times
from recordari.core.identity import Identity, RunId, SessionId, checked_id, optional_choice
from recordari.core.ids import new_id
from recordari.core.items import Item, Kind, NewItem
from recordari.core.tokens import cut_to_tokens
from recordari.db.database import Transaction
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.memory import remember
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.objects import Objects
from recordari.memory.remember import MAX_BATCH, Ready, Remembered, with_source_ref
from recordari.privacy.rules.masking import PrivacyPolicy, sanitise_value
from recordari.privacy.sanitise import policy_of
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
    checked_text,
    error_text,
    places_of,
    read_arguments,
    run_input,
    with_more_episodes,
)
from recordari.sessions.rules.sessions import Note, NoteKind, may_see
from recordari.sessions.rules.summaries import LONGEST_POINT
from recordari.sessions.run_storage import CallRow, NewRun, Result
from recordari.sessions.sessions import entered, keep_notes, own_only
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
    known = RunId(checked_id("run_id", run_id)) if run_id is not None else None
    if known is not None and (before := await _started_before(resources, identity, known)) is not None:
        return before
    now = resources.clock()
    input, metadata = await _sanitised(resources, identity, dict(input or {}), dict(metadata or {}))  # noqa: A001
    async with entered(resources, identity, session_id or identity.session_id) as (tx, standing, _):
        session = standing.session
        given = await _last_episodes(tx, session.session_id, episodes)
        ids = [episode.item_id for episode in given]
        ref = new_id()
        run = await run_storage.insert_run(
            tx,
            NewRun(
                run_id=known or RunId(str(ref)),
                run_ref=ref,
                session_id=session.session_id,
                user_id=identity.user_id or session.user_id,
                agent_id=identity.agent_id or session.agent_id,
                input=run_input(input, ids),
                currency=currency,
                metadata=checked_json("metadata", dict(metadata or {})),
                episodes=ids,
            ),
            now=now,
        )
        if run is None:  # another started it this moment, or it is of a user that this identity may not see
            raise Conflict("this run_id is taken; repeat to see if the run is yours, or use another one")
        await storage.touch(tx, session.session_id, now=now)
        (turn,) = await run_storage.list_turns(tx, run.run_id)
    return StartedTurn(run=run, turn=turn, episodes=tuple(given))


async def _sanitised(resources: Resources, identity: Identity, *values: Any) -> list[Any]:
    """The values with personal data and secrets masked as the tenant wants it."""
    policy = await policy_of(resources, identity)
    return [sanitise_value(value, policy=policy)[0] for value in values]


def _check_currency(currency: str) -> None:
    if len(currency) != 3 or not currency.isascii() or not currency.isupper():
        raise InvalidInput("currency must be a code of three letters, as in USD", field="currency")


async def _last_episodes(tx: Transaction, session_id: Any, number: int) -> list[Item]:
    if not 0 <= number <= MOST_EPISODES_GIVEN:
        raise InvalidInput(f"episodes must lie between 0 and {MOST_EPISODES_GIVEN}", field="episodes")
    if number == 0 or tx.identity.agent_id is None:
        return []
    return (await run_storage.newest_episodes(tx, session_id, limit=number))[::-1]


async def _started_before(resources: Resources, identity: Identity, run_id: RunId) -> StartedTurn | None:
    async with resources.database.transaction(identity) as tx:
        known = await run_storage.find_run(tx, run_id)
        if known is None:
            return None
        run = _shown(identity, known)
        turn = (await run_storage.list_turns(tx, run.run_id))[-1]
        found = await memory_storage.find_items(tx, turn.episodes)
    given = tuple(found[item_id] for item_id in turn.episodes if item_id in found)
    return StartedTurn(run=run, turn=turn, episodes=given, was_new=False)


def _shown(identity: Identity, run: Run | None) -> Run:
    if run is None or not may_see(identity, user_id=run.user_id, agent_id=run.agent_id):
        raise NotFound(NO_SUCH_RUN)
    return run


async def _locked(resources: Resources, tx: Transaction, run_id: str) -> Run:
    """The run, locked after its session, as everything that needs both does; its session is active by that."""
    run = _shown(tx.identity, await run_storage.find_run(tx, RunId(run_id)))
    await storage.touch(tx, run.session_id, now=resources.clock())
    locked = await run_storage.find_run(tx, run.run_id, lock=True)
    return _shown(tx.identity, locked)


async def start_turn(
    resources: Resources, identity: Identity, run_id: str, *, episodes: int = EPISODES_GIVEN
) -> StartedTurn:
    """Begin the next turn of a run; a turn that still runs is completed by it."""
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        run = await _locked(resources, tx, run_id)
        if run.status is not RunStatus.RUNNING:
            raise Conflict(f"the run has {run.status} already; start another one")
        await _end_last_turn(tx, run, RunStatus.COMPLETED, now=now)
        given = await _last_episodes(tx, run.session_id, episodes)
        ids = [episode.item_id for episode in given]
        recorded = with_more_episodes(run.input, ids)
        turn = await run_storage.start_turn(tx, run.run_id, run_input=recorded, episodes=ids, now=now)
        run = replace(run, input=recorded, turns=turn.number)
    return StartedTurn(run=run, turn=turn, episodes=tuple(given))


async def _end_last_turn(
    tx: Transaction, run: Run, status: RunStatus, *, now: datetime, error: str | None = None
) -> None:
    await run_storage.end_turn(
        tx,
        run.run_id,
        run.turns,
        status=status,
        usage=RunUsage(),
        prompt_tokens=None,
        error=error,
        data=None,
        now=now,
    )


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
    """End the present turn of a run: what it cost, what its prompt used, and where the agent stands now."""
    now = resources.clock()
    data = None if state is None else checked_json("state", dict(state))
    async with resources.database.transaction(identity) as tx:
        run = await _locked(resources, tx, run_id)
        ended = await run_storage.end_turn(
            tx,
            run.run_id,
            run.turns,
            status=RunStatus.COMPLETED if error is None else RunStatus.FAILED,
            usage=usage or RunUsage(),
            prompt_tokens=prompt_tokens,
            error=None if error is None else error_text(error),
            data=data,
            now=now,
        )
        if ended is None:
            raise Conflict("this turn has ended already; start the next one")
        if prompt_tokens is not None:
            standing = await storage.find_newest(tx, run.session_id)
            assert standing is not None
            session = await with_usage(resources, tx, standing, prompt_tokens)
            await storage.save_window(tx, session, now=now)
        return ended


async def complete_run(
    resources: Resources, identity: Identity, run_id: str, *, output: Any = None, usage: RunUsage | None = None
) -> Run:
    """End a run well; `usage` is what its turns have not reported. Completed again it stays as it was."""
    return await _end_run(
        resources, identity, run_id, RunStatus.COMPLETED, output=checked_json("output", output), usage=usage
    )


async def fail_run(
    resources: Resources,
    identity: Identity,
    run_id: str,
    *,
    error: str,
    output: Any = None,
    usage: RunUsage | None = None,
) -> Run:
    """End a run that failed, and say why. Failed again it stays as it was."""
    return await _end_run(
        resources,
        identity,
        run_id,
        RunStatus.FAILED,
        output=checked_json("output", output),
        usage=usage,
        error=error_text(error),
    )


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
    output, error = await _sanitised(resources, identity, output, error)
    async with resources.database.transaction(identity) as tx:
        run = await _locked(resources, tx, run_id)
        if not check_end(run, status):
            return run
        await _end_last_turn(tx, run, status, now=now, error=error)
        ended = await run_storage.end_run(
            tx, run.run_id, status=status, usage=usage or RunUsage(), output=output, error=error, now=now
        )
        assert ended is not None
        await drop_state_of_run(tx, resources, run.run_id)
        return ended


async def get_run(resources: Resources, identity: Identity, run_id: str) -> Run:
    """One run."""
    async with resources.database.transaction(identity) as tx:
        return _shown(identity, await run_storage.find_run(tx, RunId(run_id)))


async def get_turn_state(resources: Resources, identity: Identity, session_id: str) -> TurnState:
    """Where the agent of a session stands; there is none before its first turn."""
    async with resources.database.transaction(identity) as tx:
        newest = await storage.find_newest(tx, SessionId(session_id))
        found = await run_storage.find_turn_state(tx, newest.session.session_id) if newest else None
        if newest is None or found is None:
            raise NotFound("there is no turn in such a session")
        _shown(identity, await run_storage.find_run(tx, found.run_id))
        return found


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
    """Runs that fit, newest first; `before` is the `run_ref` of the last one seen."""
    status = optional_choice("status", RunStatus, status)
    agent_id, _ = own_only(identity, agent_id=agent_id, user_id=None)
    check_times(since=since, until=until)
    async with resources.database.transaction(identity) as tx:
        return await run_storage.list_runs(
            tx,
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
    """Append tool calls to a run in the order given, all of them or none.

    A result is kept as an item of its session, so that it can be recalled; the call points to it.
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
        places = places_of(calls, run.calls)
        fresh = {place for place in places if place > run.calls}
        kept, changed = await _save_results(tx, run, ready, calls, places, fresh)
        placed = [_placed(row, place, kept.get(place)) for row, place in zip(rows, places, strict=True)]
        await run_storage.insert_calls(tx, run, [row for row in placed if row.number in fresh])
        recorded = await run_storage.find_calls(tx, run.run_id, places)
        _check_same(placed, recorded)
        await _note_useful(resources, tx, run, zip(calls, places, strict=True), kept)
    if changed:
        resources.wake(EMBED_TOPIC)
    return recorded


def _call_row(call: NewToolCall, *, now: datetime) -> CallRow:
    """The row of a call before its place and the item of its result are known."""
    body = None if call.result is None else checked_text("result", call.result).encode()
    return CallRow(
        number=0,
        call_id=call.call_id,
        name=call.name,
        arguments=arguments_text(call.arguments),
        result_id=None,
        result_blank=call.result if call.says_nothing else None,
        result_key=None,
        result_bytes=None if body is None else len(body),
        result_sha256=None if body is None else hashlib.sha256(body).digest(),
        error=None if call.error is None else error_text(call.error),
        latency_ms=call.latency_ms,
        started_at=call.started_at or now,
    )


def _placed(row: CallRow, place: int, result: Remembered | None) -> CallRow:
    if result is None:
        return replace(row, number=place)
    return replace(row, number=place, result_id=result.id, result_key=result.payload_key)


async def _ready_results(resources: Resources, identity: Identity, run: Run, calls: Sequence[NewToolCall]) -> Ready:
    who = identity.narrowed(agent_id=run.agent_id, session_id=run.session_id, run_id=run.run_id)
    news = [
        NewItem(
            content=call.result or "",
            kind=Kind.TOOL_OUTPUT,
            source_ref=f"{run.run_id}:new",
            speaker=call.name,
            event_time=call.started_at,
            metadata={"tool": call.name, **({"call_id": call.call_id} if call.call_id else {})},
        )
        for call in calls
        if not call.says_nothing
    ]
    return await remember.make_ready(resources, who, news)


async def _save_results(
    tx: Transaction,
    run: Run,
    ready: Ready,
    calls: Sequence[NewToolCall],
    places: Sequence[int],
    fresh: set[int],
) -> tuple[dict[int, Remembered], list[UUID]]:
    """Keep the results of new calls, each under its place in the run; and the ids whose text is new."""
    with_result = [place for call, place in zip(calls, places, strict=True) if not call.says_nothing]
    rows = {
        place: with_source_ref(row, f"{run.run_id}:{place}")
        for row, place in zip(ready.rows, with_result, strict=True)
        if place in fresh
    }
    remembered, changed = await remember.save_ready(tx, replace(ready, rows=tuple(rows.values())))
    return dict(zip(rows, remembered, strict=True)), changed


def _check_same(rows: Sequence[CallRow], recorded: Sequence[ToolCall]) -> None:
    known = {call.number: call for call in recorded}
    for row in rows:
        found = known[row.number]
        if (found.name, found.arguments, found.result_sha256) != (row.name, row.arguments, row.result_sha256):
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
        Note(
            note_id=new_id(),
            kind=NoteKind.TOOL_RESULT,
            content=f"{call.name}: {cut_to_tokens(call.result.strip(), LONGEST_POINT)}",
            importance=USEFUL_RESULT_IMPORTANCE,
            item_id=kept.id,
            created_at=now,
        )
        for call, place in calls
        if call.useful and call.result and (kept := results.get(place))
    ]
    if notes:
        session = await storage.find_session(tx, run.session_id)
        assert session is not None
        await keep_notes(tx, session, notes, now=now)


async def replay_run(resources: Resources, identity: Identity, run_id: str, *, results: bool = True) -> Replay:
    """A run's turns and tool calls in order, exactly as they were recorded.

    With `results` each call has its whole result too, where that is still kept; `result_sha256` tells if it is the same.
    """
    async with resources.database.transaction(identity) as tx:
        run = _shown(identity, await run_storage.find_run(tx, RunId(run_id)))
        turns = await run_storage.list_turns(tx, run.run_id)
        calls = await run_storage.list_calls(tx, run.run_id)
        kept = await run_storage.list_results(tx, run.run_id) if results else {}
    if results:
        calls = [
            replace(call, result=await _whole(resources, kept[call.number])) if call.number in kept else call
            for call in calls
        ]
    return Replay(run=run, turns=tuple(turns), calls=tuple(calls))


async def _whole(resources: Resources, kept: Result) -> str:
    if kept.body is not None:
        return kept.body.decode()
    if kept.object_key is not None:
        return (await resources.get(Objects).get(kept.object_key)).decode()
    return kept.content


async def sanitise_calls(resources: Resources, identity: Identity, calls: Sequence[NewToolCall]) -> list[NewToolCall]:
    """Tool calls without what the tenant does not want kept, in their arguments, results and errors."""
    policy = await policy_of(resources, identity)
    if not policy.enabled:
        return list(calls)
    counts: Counter[str] = Counter()
    cleaned = await asyncio.to_thread(lambda: [_clean_call(call, policy, counts) for call in calls])
    resources.telemetry.count_masked(counts)
    return cleaned


def _clean_call(call: NewToolCall, policy: PrivacyPolicy, counts: Counter[str]) -> NewToolCall:
    given = {"arguments": read_arguments(call.arguments), "result": call.result, "error": call.error}
    changed, found = sanitise_value(given, policy=policy)
    counts.update(found)
    return replace(call, **changed) if found else call
