"""Recall as the design of a platform memory describes it, sentence by sentence (R1–R6, F2)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.json_server import Reply, Request, json_server
from tests.working import at, settled

from recordari.app import Memory
from recordari.config import RecallWeights, Settings
from recordari.core.identity import Identity, Role, Scope
from recordari.core.items import MAX_CONTENT_BYTES, Kind, NewItem, Trust
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound, Unauthenticated
from recordari.memory.items import NO_SUCH_OUTPUT
from recordari.models.reranking import RerankProvider, RerankSpec, make_reranker
from recordari.tenants import tenants


@pytest.fixture
def chat(memory: Memory) -> Memory:
    """An agent in a session with a user."""
    agent = Identity(tenant_id=memory.identity.tenant_id)
    return memory.bound(agent).acting_as(user="ana", agent="helper", session="chat-1")


async def embedded(memory: Memory) -> None:
    """Let a worker embed everything that waits."""
    await settled(memory)
    assert not (await memory.recall("anything")).degraded


def texts(answer: Any) -> list[str]:
    return [item.content for item in answer.items]


# "Both keyword and semantic similarity are matched."


async def test_a_row_is_found_by_keyword_at_once_and_by_meaning_once_embedded(chat: Memory) -> None:
    await chat.remember("The puppy chewed my slippers", speaker="Ana")
    assert texts(await chat.recall("slippers")) == ["The puppy chewed my slippers"]
    assert texts(await chat.recall("dog")) == []
    await embedded(chat)
    assert texts(await chat.recall("dog")) == ["The puppy chewed my slippers"]


# "top_k: Number of items to return (max 20)." That is the limit of the agent's tool; a program may ask for 50.
# "source_kinds: Filter by source kind. Omit to search all kinds."


async def test_top_k_and_source_kinds_limit_the_answer(chat: Memory) -> None:
    for number in range(25):
        await chat.remember(f"order count of week {number} was stable")
    await chat.remember("order count from the warehouse", kind="tool_output")
    assert (await chat.recall("order count")).total == 5
    assert (await chat.recall("order count", top_k=20)).total == 20
    only = await chat.recall("order count", source_kinds=["tool_output"])
    assert [item.source_kind for item in only.items] == [Kind.TOOL_OUTPUT]
    assert (await chat.recall("order count", top_k=50)).total == 26
    for wrong in (0, 51, -1):
        with pytest.raises(InvalidInput, match="between 1 and 50"):
            await chat.recall("order count", top_k=wrong)
    with pytest.raises(InvalidInput):
        await chat.recall("   ")


# "session — chat messages and tool outputs from the current chat session."


async def test_session_scope_stays_in_its_session(chat: Memory) -> None:
    await chat.remember("the launch codeword is marigold")
    elsewhere = chat.acting_as(session="chat-2")
    assert texts(await chat.recall("launch codeword", scope="session")) == ["the launch codeword is marigold"]
    assert texts(await elsewhere.recall("launch codeword", scope="session")) == []
    assert texts(await elsewhere.recall("launch codeword", scope="user")) == []


# "user — explicit user-scope facts. Service-account chats can't use this scope and get a 401."
# "agent — Requires the request to have an agent_id. Returns 401 otherwise."


async def test_scopes_without_their_owner_are_refused(memory: Memory) -> None:
    service_account = memory.bound(Identity(tenant_id=memory.identity.tenant_id))
    for scope in ("user", "agent"):
        with pytest.raises(Unauthenticated) as refused:
            await service_account.recall("anything", scope=scope)
        assert refused.value.status == 401
        with pytest.raises(Unauthenticated):
            await service_account.remember_fact("nobody's fact", scope=scope)


# "chat messages are NOT visible via scope='user' even if their user_id column is populated"


async def test_chat_messages_are_not_user_facts(chat: Memory) -> None:
    await chat.remember("my seat is 14C", speaker="Ana")
    await chat.remember_fact("Ana likes seat 14C by the window")
    assert texts(await chat.recall("seat 14C", scope="user")) == ["Ana likes seat 14C by the window"]
    assert len((await chat.recall("seat 14C")).items) == 2


async def test_user_and_agent_facts_belong_to_their_owner_across_sessions(chat: Memory) -> None:
    await chat.remember_fact("Ana is allergic to peanuts", scope="user")
    await chat.remember_fact("peanut questions need the allergy script", scope="agent")
    later = chat.acting_as(session="chat-9")
    assert len((await later.recall("peanut allergy")).items) == 2
    assert texts(await later.acting_as(user="bob").recall("peanut allergy", scope="user")) == []
    assert texts(await later.acting_as(agent="other").recall("peanut allergy", scope="agent")) == []


# "tenant — uploaded document chunks tagged tenant-wide. Bounded by tenant only."


async def test_documents_are_seen_by_every_user_of_the_tenant_and_written_by_its_administrator(
    memory: Memory, chat: Memory
) -> None:
    await memory.remember("Refunds take five working days", kind="document_chunk", source_ref="policy#1")
    assert texts(await chat.recall("refunds", scope="tenant")) == ["Refunds take five working days"]
    assert texts(await chat.acting_as(user="bob").search_knowledge("refunds")) == ["Refunds take five working days"]
    with pytest.raises(InvalidInput, match="administrator"):
        await chat.remember("agents may not", kind="document_chunk", source_ref="policy#2")


# "Tenant isolation is unconditional in every scope"


async def test_no_scope_crosses_tenants(memory: Memory, chat: Memory) -> None:
    await chat.remember("quarterly secret alpha")
    await chat.remember_fact("quarterly secret beta")
    await memory.remember("quarterly secret gamma", kind="document_chunk", source_ref="d#1")
    other = await tenants.ensure_tenant(memory.resources, "other")
    stranger = memory.bound(Identity(tenant_id=other.tenant_id, role=Role.ADMIN)).acting_as(
        user="ana", agent="helper", session="chat-1"
    )
    for scope in ("any", "session", "user", "agent", "tenant"):
        assert texts(await stranger.recall("quarterly secret", scope=scope)) == []


# "Static class priors" "Negative or non-numeric values fall back to the default. Setting a weight to 0 effectively suppresses"


def weighted(memory: Memory, **weights: float) -> Memory:
    settings = memory.resources.settings.model_copy(update={"recall_weights": RecallWeights(**weights)})
    return Memory(replace(memory.resources, settings=settings), memory.identity)


async def test_weights_order_the_scopes_and_zero_mutes_one(chat: Memory) -> None:
    await chat.remember("the parking code is 4711")
    await chat.remember_fact("the parking code is 4712", scope="agent")
    first = await chat.recall("what is the parking code")
    assert first.items[0].scope is Scope.SESSION
    reversed_weights = weighted(chat, session=0.2, agent=5.0)
    assert (await reversed_weights.recall("what is the parking code")).items[0].scope is Scope.AGENT
    muted = weighted(chat, session=0.0)
    assert [item.scope for item in (await muted.recall("what is the parking code")).items] == [Scope.AGENT]


async def test_a_muted_scope_that_is_asked_for_by_name_is_ranked_as_ever(chat: Memory) -> None:
    await chat.remember("the parking code is 4711")
    for day in ("monday", "tuesday"):
        await chat.remember(f"we had soup on {day}")
    muted = weighted(chat, session=0.0)
    (first,) = (await muted.recall("what is the parking code", scope="session", top_k=1)).items
    assert first.content == "the parking code is 4711" and first.score > 0
    traced = await muted.recall("parking code", explain=True)
    assert traced.trace is not None and traced.trace["scopes_left_out"] == {"session": "its weight is 0"}


@pytest.mark.parametrize("bad", ["-1", "NaN", "Infinity", '"much"', "null", '""'])
def test_a_bad_weight_falls_back_to_its_default(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDARI_RECALL_WEIGHTS", f'{{"session": {bad}, "tenant": 0}}')
    assert Settings().recall_weights == RecallWeights(session=1.3, tenant=0)
    monkeypatch.setenv("RECORDARI_RECALL_WEIGHTS", bad)
    assert Settings().recall_weights == RecallWeights()


# "degraded: true indicates that some rows are still being embedded in the background; keyword recall is still complete."


async def test_degraded_is_true_exactly_while_something_waits(chat: Memory) -> None:
    assert not (await chat.recall("anything")).degraded
    for number in range(30):
        await chat.remember(f"ledger line {number} for account {number * 7}")
    waiting = await chat.recall("ledger", top_k=20)
    assert waiting.degraded and waiting.total == 20
    assert texts(await chat.recall("ledger line 17", top_k=1)) == ["ledger line 17 for account 119"]
    await embedded(chat)
    assert not (await chat.recall("ledger")).degraded


async def test_what_was_recorded_within_the_asked_time_is_above_what_was_said_soon_after(chat: Memory) -> None:
    for day, content in (
        (4, "Receipt: two tickets for the ferry"),
        (11, "Receipt: two tickets for the ferry, refunded"),
    ):
        await chat.remember(content, event_time=datetime(2031, 3, day, 9, tzinfo=UTC))
    answer = await chat.recall("Which tickets for the ferry were refunded or bought on 4 March 2031?")
    assert texts(answer)[0] == "Receipt: two tickets for the ferry"


# "Any rerank failure (TEI down, timeout, malformed response) returns merge-order results."


def _scores(request: Request) -> Reply:
    """A reranker that likes the last candidate best."""
    count = len(request.body["texts"])
    return Reply(body=[{"index": index, "score": 0.9 if index == count - 1 else 0.01} for index in range(count)])


async def test_rerank_reorders_and_says_so(chat: Memory) -> None:
    for name in ("red", "green", "blue"):
        await chat.remember(f"the {name} door code")
    plain = await chat.recall("door code", enable_rerank=False)
    with json_server(_scores) as server:
        asked = await _with_reranker(chat, server.url, timeout=60).recall("door code")
        assert asked.rerank_used and not plain.rerank_used
        first, second, third = texts(plain)
        assert texts(asked) == [third, first, second]
        off = await _with_reranker(chat, server.url, timeout=60).recall("door code", enable_rerank=False)
        assert not off.rerank_used and texts(off) == texts(plain)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=500, body={"error": "no"}),
        Reply(hang=True),
        Reply(body=b"not json"),
        Reply(body=[{"index": 0, "score": 0.5}]),
        Reply(body=[{"index": 0, "score": "NaN"}, {"index": 1, "score": None}, {"index": 7, "score": 1}]),
    ],
    ids=["error", "hanging", "not JSON", "too short", "nonsense"],
)
async def test_rerank_failing_changes_nothing_but_the_flag(reply: Reply, chat: Memory) -> None:
    for name in ("red", "green", "blue"):
        await chat.remember(f"the {name} door code")
    plain = await chat.recall("door code", enable_rerank=False)
    with json_server(lambda _: reply) as server:
        failed = await _with_reranker(chat, server.url).recall("door code")
    assert not failed.rerank_used and texts(failed) == texts(plain)
    refused = await _with_reranker(chat, "http://127.0.0.1:1").recall("door code")
    assert not refused.rerank_used and texts(refused) == texts(plain)


def _with_reranker(memory: Memory, url: str, *, timeout: float = 0.3) -> Memory:
    reranker = make_reranker(RerankSpec(provider=RerankProvider.TEI, base_url=url, timeout=timeout))
    return Memory(replace(memory.resources, reranker=reranker), memory.identity)


# "fact:{scope}:{identity}:{sha256(content)[:16]} … Idempotent: same (identity, content) re-asserts to the same row"


async def test_a_fact_has_a_deterministic_reference(chat: Memory) -> None:
    first = await chat.remember_fact("Ana's timezone is Lisbon", metadata={"from": "profile"})
    again = await chat.acting_as(session="chat-7").remember_fact("  Ana's timezone  is Lisbon. ")
    assert (first.was_new, again.was_new) == (True, False) and first.id == again.id
    assert first.source_ref.startswith("fact:user:ana:") and len(first.source_ref.rpartition(":")[2]) == 16
    other = await chat.acting_as(user="bob").remember_fact("Ana's timezone is Lisbon")
    assert other.was_new and other.id != first.id
    item = await chat.get_item(first.id)
    assert item.session_id is None and item.user_id == "ana" and item.metadata == {"from": "profile"}


async def test_the_same_reference_is_the_same_row_and_another_text_is_refused(chat: Memory) -> None:
    first = await chat.remember("hello there", source_ref="m-1")
    assert not (await chat.remember("hello there", source_ref="m-1")).was_new
    with pytest.raises(Conflict, match="another text"):
        await chat.remember("something else", source_ref="m-1")
    assert (await chat.get_item(first.id)).content == "hello there"
    with pytest.raises(Conflict):
        await chat.remember_many([NewItem(content="new one", source_ref="m-2"), NewItem(content="x", source_ref="m-1")])
    assert texts(await chat.recall("new one")) == []


async def test_a_reference_of_another_owner_is_another_reference(memory: Memory, chat: Memory) -> None:
    await chat.remember("my private note", source_ref="n-1", scope="user")
    await chat.remember("a summary", kind="session_summary", source_ref="s-1")
    stranger = chat.acting_as(user="bob", session="chat-2")
    assert (await stranger.remember("his private note", source_ref="n-1", scope="user")).was_new
    assert (await stranger.remember("another one", kind="session_summary", source_ref="s-1")).was_new
    assert texts(await chat.recall("summary note", top_k=5)).count("a summary") == 1


async def test_sessions_of_nobody_are_not_one_owner(memory: Memory) -> None:
    one, other = (memory.acting_as(agent="helper", session=name) for name in ("one", "other"))
    await one.remember("they spoke about horses", kind="session_summary", source_ref="summary")
    with pytest.raises(Conflict, match="another item"):
        await other.remember("they spoke about donkeys", kind="session_summary", source_ref="summary")
    assert texts(await one.recall("spoke", scope="session")) == ["they spoke about horses"]


async def test_two_users_may_say_the_same_to_one_agent_at_the_same_moment(memory: Memory) -> None:
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id))
    said: dict[str, Any] = {"scope": "user", "event_time": datetime(2026, 3, 1, tzinfo=UTC)}
    for user in ("ana", "bob"):
        talking = agent.acting_as(user=user, agent="helper")
        assert (await talking.remember("good morning", **said)).was_new
        assert not (await talking.remember("good morning", **said)).was_new
        assert texts(await talking.recall("good morning")) == ["good morning"]


# "memory_items carries a recallable copy capped at 16 KiB" "read_tool_output … same key, full content"


@pytest.mark.parametrize("size", [20_000, 500_000])
async def test_a_large_tool_output_is_elided_and_read_whole_again(size: int, chat: Memory) -> None:
    whole = "METABASE ANCHOR_TOKEN_7a3f9 " + "".join(f"row {number} – größe;" for number in range(size // 18))
    kept = await chat.remember(whole, kind="tool_output", source_ref="call-1")
    assert kept.payload_key is not None and kept.payload_key.startswith("tout_")
    (item,) = (await chat.recall("ANCHOR_TOKEN_7a3f9 metabase")).items
    assert len(item.content.encode()) <= MAX_CONTENT_BYTES and "left out" in item.content
    assert item.payload_key == kept.payload_key
    read = await chat.read_tool_output(kept.payload_key)
    assert read.content == whole and read.is_whole and read.total_bytes == len(whole.encode())
    part = await chat.read_tool_output(kept.payload_key, start=9, length=18)
    assert part.content == "ANCHOR_TOKEN_7a3f9" and not part.is_whole
    ranges = [
        await chat.read_tool_output(kept.payload_key, start=first, length=3_001) for first in range(0, 30_000, 3_001)
    ]
    assert whole.startswith("".join(one.content for one in ranges))


@pytest.mark.parametrize("letter", ["a", "ö", "漢", "🎉"])
async def test_a_preview_has_the_beginning_and_the_end_and_counts_the_rest(letter: str, chat: Memory) -> None:
    whole = f"begins {letter * 20_000} ends"
    await chat.remember(whole, kind="tool_output", source_ref="call-1")
    (item,) = (await chat.recall("begins")).items
    head, between, tail = item.content.split("\n")
    assert whole.startswith(head) and whole.endswith(tail) and tail.endswith(" ends")
    assert f"[{len(whole) - len(head) - len(tail)} characters left out]" in between


@pytest.mark.parametrize("size", [20_000, 200_000])
async def test_nothing_is_left_of_a_large_text_that_a_small_one_replaces(size: int, chat: Memory) -> None:
    kept = await chat.remember("long " * (size // 5), kind="session_summary", source_ref="summary")
    assert kept.payload_key is not None
    again = await chat.remember("short", kind="session_summary", source_ref="summary")
    assert again.id == kept.id and again.payload_key is None
    with pytest.raises(NotFound):
        await chat.read_tool_output(kept.payload_key)


@pytest.mark.parametrize("size", [20_000, 150_000])
async def test_a_tool_output_read_in_parts_loses_no_character(size: int, chat: Memory) -> None:
    whole = "größe 🚀 合同 – " * (size // 20)
    kept = await chat.remember(whole, kind="tool_output", source_ref="call-1")
    assert kept.payload_key is not None
    read, start = "", 0
    while True:
        part = await chat.read_tool_output(kept.payload_key, start=start, length=7_001)
        read += part.content
        if part.next_start is None:
            break
        start = part.next_start
    assert read == whole
    # Nor by a caller who counts bytes itself, whatever it cuts through.
    cut = [await chat.read_tool_output(kept.payload_key, start=at, length=3) for at in range(0, 60, 3)]
    assert "".join(one.content for one in cut) == whole.encode()[:60].decode()
    past = await chat.read_tool_output(kept.payload_key, start=10**9, length=3)
    assert (past.content, past.next_start, past.is_whole) == ("", None, False)


async def test_a_tool_output_of_others_answers_as_a_missing_one(chat: Memory) -> None:
    kept = await chat.remember("x" * 40_000, kind="tool_output", source_ref="call-1")
    assert kept.payload_key is not None
    for reader in (chat.acting_as(session="chat-2"), chat):
        key = kept.payload_key if reader is not chat else "tout_" + "0" * 32
        with pytest.raises(NotFound) as refused:
            await reader.read_tool_output(key)
        assert refused.value.message == NO_SUCH_OUTPUT


# "recall(..., include_superseded=True) … reachable only by administrators"


async def test_only_an_administrator_looks_at_superseded_items(chat: Memory) -> None:
    with pytest.raises(Forbidden):
        await chat.recall("anything", include_superseded=True)


async def test_recall_answers_within_a_time_range_and_as_of_a_date(chat: Memory) -> None:
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for day in range(3):
        await chat.remember(f"standup note number {day}", event_time=start + timedelta(days=day))
    within = await chat.recall("standup note", since=start + timedelta(days=1), until=start + timedelta(days=2))
    assert texts(within) == ["standup note number 1"]
    assert texts(await chat.recall("standup note", as_of=start)) == ["standup note number 0"]
    assert texts(await chat.recall("standup note", known_at=start)) == []
    assert len((await chat.recall("standup note", as_of=datetime.now(UTC) + timedelta(minutes=1))).items) == 3
    with pytest.raises(InvalidInput, match="time zone"):
        await chat.recall("standup", since=datetime(2026, 3, 1))
    with pytest.raises(InvalidInput, match="since must be before until"):
        await chat.recall("standup", since=start, until=start)
    with pytest.raises(InvalidInput, match="as_of must be a datetime"):
        await chat.recall("standup", as_of="2026-03-01")  # type: ignore[arg-type]


async def test_a_time_in_the_question_finds_what_was_said_then(chat: Memory) -> None:
    now = chat.resources.clock()
    for days in range(0, 60, 3):
        await chat.remember(f"we looked at topic {days}", event_time=now - timedelta(days=days))
    answer = await chat.recall("what did we discuss yesterday or today?", explain=True)
    assert answer.trace is not None and answer.trace["interval"] is not None
    assert texts(answer)[0] == "we looked at topic 0"


async def test_a_day_that_a_question_names_is_the_users_and_counts_from_the_moment_asked_for(
    memory: Memory, chat: Memory
) -> None:
    await memory.save_user("ana", time_zone="America/New_York")
    evening = datetime(2026, 3, 11, 2, 30, tzinfo=UTC)  # half past ten on the 10th in New York
    for asking, as_of in ((at(chat, evening), None), (chat, evening)):
        answer = await asking.recall("what did we discuss yesterday?", as_of=as_of, explain=True)
        assert answer.trace is not None
        assert answer.trace["interval"] == {"start": "2026-03-09T04:00:00+00:00", "end": "2026-03-10T04:00:00+00:00"}


async def test_what_hardly_fits_fills_the_answer_in_order_and_not_by_age(chat: Memory) -> None:
    facts = (
        "Tom is allergic to nuts",
        "The office closes at six",
        "Deploys happen on Thursdays",
        "The crane was repaired",
    )
    for fact in facts:
        await chat.remember_fact(fact)
    await embedded(chat)
    answer = await chat.recall("What can my guest not eat?", top_k=3)
    assert texts(answer)[0] == facts[0] and len(answer.items) == 3
    scores = [item.score for item in answer.items]
    assert scores[0] > scores[1] > scores[2] and scores[2] < 0
    sooner = weighted(chat, user=5.0)
    (first, *_) = (await sooner.recall("What can my guest not eat?")).items
    assert first.content == facts[0] and scores[0] < first.score < 0


# What a stemmer would spoil is found again by its text.


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("use ANCHOR_TOKEN_7a3f9 for the demo", "ANCHOR_TOKEN_7a3f9"),
        ("write to maria.lopez+news@example.co.uk please", "maria.lopez+news@example.co.uk"),
        ("the log is in /var/log/app/server-2.log today", "/var/log/app/server-2.log"),
        ("Der Vertrag mit der Bäckerei läuft im März aus", "Wann läuft der Vertrag mit der Bäckerei aus?"),
        ("我们下周三在上海见面讨论合同", "在上海见面"),
        ("that made my day 🎉🚀", "🚀"),
        ("order AB-12345 was shipped", "AB-12345"),
        ("call get_user_by_id(42) twice", "get_user_by_id"),
    ],
)
async def test_exact_writing_is_found_again(said: str, asked: str, memory: Memory, chat: Memory) -> None:
    await memory.update_tenant(settings={"privacy": {"email": "keep"}})  # by default an address is masked when written
    for noise in ("nothing of note here", "another day at the office", "we talked about the weather"):
        await chat.remember(noise)
    await chat.remember(said)
    assert texts(await chat.recall(asked, top_k=1)) == [said]


async def test_a_tenant_can_have_another_language(memory: Memory, chat: Memory) -> None:
    await memory.update_tenant(language="german")
    memory.resources.forget_tenant(memory.identity.tenant_id)
    await chat.remember("Die Lieferungen verspäten sich")
    assert texts(await chat.recall("Lieferung")) == ["Die Lieferungen verspäten sich"]


async def test_the_same_text_is_shown_once(chat: Memory) -> None:
    for number in range(4):
        await chat.remember("The server room is on floor 3", source_ref=f"copy-{number}")
    answer = await chat.recall("server room", explain=True)
    assert texts(answer) == ["The server room is on floor 3"]
    assert answer.trace is not None and len(answer.trace["duplicates_merged"]) == 3


async def test_however_often_the_same_was_said_the_answer_is_full(chat: Memory) -> None:
    often = [NewItem(content="The server room is on floor 3", source_ref=f"copy-{number}") for number in range(40)]
    once = [NewItem(content=f"The server room has rack {number}") for number in range(1, 5)]
    await chat.remember_many([*often, *once])
    for explain in (False, True):
        answer = await chat.recall("the server room is on floor 3", explain=explain)
        assert sorted(texts(answer)) == sorted(one.content for one in (often[0], *once))


async def test_the_trace_says_why(chat: Memory) -> None:
    await chat.remember("Priya moved the review to Thursday", speaker="Priya")
    await chat.remember("Fine with me", speaker="Ana")
    await embedded(chat)
    answer = await chat.recall("When is Priya's review?", explain=True)
    trace = answer.trace
    assert trace is not None
    assert trace["items"][0]["id"] == str(answer.items[0].id) and trace["items"][0]["ranks"]["text"] == 1
    assert {"words", "late", "meaning", "session"} <= trace["items"][0]["parts"].keys()
    assert trace["candidates"]["text"] >= 1 and trace["milliseconds"]["total"] > 0
    assert (await chat.recall("When is Priya's review?")).trace is None
    assert trace["scopes_left_out"] == {} and trace["filters"] == {} and trace["question_embedded"]
    assert trace["rerank"] == "none is set up"


async def test_the_trace_says_what_was_left_out_and_why(memory: Memory) -> None:
    nobody = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(agent="helper")
    since = datetime(2026, 3, 1, tzinfo=UTC)
    answer = await nobody.recall("anything", source_kinds=["fact"], since=since, explain=True)
    assert answer.trace is not None
    assert answer.trace["filters"] == {"since": since.isoformat(), "source_kinds": ["fact"]}
    assert answer.trace["scopes_left_out"] == {
        "history": "no user is named",
        "session": "no session is named",
        "user": "no user is named",
    }
    assert answer.trace["searched_in"] == "process" and not answer.trace["items"]


async def test_an_item_says_what_found_it(chat: Memory) -> None:
    await chat.remember("Priya moved the review to Thursday", speaker="Priya")
    await chat.remember("Fine with me", speaker="Ana")
    at_once = {item.content: item.found_by for item in (await chat.recall("review")).items}
    assert at_once == {"Priya moved the review to Thursday": ("text",), "Fine with me": ("beside",)}
    await embedded(chat)
    for _ in range(3):  # in the database first, then in the process
        by_meaning = (await chat.recall("the meeting of Priya")).items[0]
        assert set(by_meaning.found_by) >= {"vector", "entity"}


async def test_entities_link_what_words_do_not(chat: Memory) -> None:
    await chat.remember("I had lunch with Dolores Haze at the harbour", speaker="Ana")
    await chat.remember("It was raining all day", speaker="Bob", trust=Trust.AGENT)
    await embedded(chat)
    answer = await chat.recall("Who is Dolores Haze?", explain=True)
    assert texts(answer)[0].startswith("I had lunch") and answer.trace is not None
    assert answer.trace["entities"] == ["dolores haze"] and answer.trace["candidates"]["entity"] >= 1


# "a recall arm follows one or two links, so that a question with two hops finds both turns" (X1)


async def test_a_question_with_two_hops_finds_both_turns(chat: Memory) -> None:
    names = ("Bruno Reis", "Carla Dias", "Dora Lind", "Emil Voss")
    doings = ("lives near the station", "trained for a race", "moved house", "lives with two cats in town")
    said = [f"{names[place % 4]} {doings[place // 4 % 4]}, says number {place}" for place in range(120)]
    said[30] = "Maria Santos trained Leo for the marathon"
    said[90] = "Maria Santos has settled in Porto by the river"
    await chat.remember_many([NewItem(content=text, source_ref=f"m-{place}") for place, text in enumerate(said)])
    stranger = chat.acting_as(user="bob", session="chat-2")
    await stranger.remember("Maria Santos hides the key of Leo from Dora Lind and Rosa Falk")
    await chat.remember("Rosa Falk has painted the fence")
    await embedded(chat)
    chat.resources.forget_tenant(chat.identity.tenant_id)  # what is known of how rare words are may be seconds old
    for _ in range(3):  # in the database first, then in the process
        answer = await chat.recall("Where does the person who trained Leo live?", explain=True)
        assert texts(answer)[0] == said[30] and said[90] in texts(answer)
        assert "Rosa Falk has painted the fence" not in texts(answer)  # what others said leads nowhere
    # Asked for Leo alone, nobody asks for what Maria does.
    plain = await chat.recall("What about Leo?", explain=True)
    assert plain.trace is not None and plain.trace["candidates"]["entity"] == 1


@pytest.mark.parametrize("bad", ["", " \n ", "nul\x00byte", "half \ud800 pair"])
async def test_content_that_cannot_be_kept_is_refused_and_changes_nothing(bad: str, chat: Memory) -> None:
    with pytest.raises(InvalidInput):
        await chat.remember(bad)
    assert (await chat.recall("nul byte half pair", top_k=20)).total == 0


# "Newest fact above the outdated one (knowledge update)"


async def test_where_a_question_asks_how_things_stand_what_was_said_last_comes_first(memory: Memory) -> None:
    start = datetime(2026, 1, 10, tzinfo=UTC)
    said = {
        0: "I really must air the room. I keep my old sneakers under the bed, and they start to smell.",
        20: "By the way, I keep my old sneakers in the shoe rack of the hall.",
        3: "I go to the gym at seven in the evening, usually with Maja.",
        30: "The meeting must end in time, because I go to the gym at six.",
        9: "The gym has new machines, and old sneakers are not allowed on them.",
    }
    person = memory.acting_as(user="ana")
    for day, text in said.items():
        await person.remember(
            text, scope="user", session_id=f"s{day}", speaker="Ana", event_time=start + timedelta(days=day)
        )
    await settled(memory)  # facts are taken from it too
    memory.resources.forget_tenant(memory.identity.tenant_id)  # what is known of how rare words are may be seconds old

    async def places(question: str) -> list[int]:
        days = {text: day for day, text in said.items()}
        answer = await person.recall(question, explain=True)
        assert answer.trace is not None
        return [days[text] for text in texts(answer)]

    for question, new, old in (
        ("Where do I currently keep my old sneakers?", 20, 0),
        ("Where are my old sneakers now?", 20, 0),
        ("What time do I go to the gym?", 30, 3),
    ):
        found = await places(question)
        assert found.index(new) < found.index(old), question
    before = await person.recall("Where did I keep my old sneakers before?", explain=True)
    assert before.trace is not None and before.trace["asks_for_now"] == 0
    assert before.trace["items"] and all("newer" not in one["parts"] for one in before.trace["items"])
