"""One item is written together with its vector where the model is quick, and is what the job would have made of it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import cast

import pytest
from tests.local_models import require_model
from tests.statements import counted
from tests.working import work_off
from tokenizers import Tokenizer

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Scope
from recordari.core.items import NewItem
from recordari.db import outbox
from recordari.db.queries import Query
from recordari.memory.storage import INSERT_ITEMS
from recordari.models.base import Embedder, Vector
from recordari.models.embedding import Embedders
from recordari.models.pull import RESCORER
from recordari.models.static import StaticTokens
from recordari.wiring import open_resources

MOVE = Query(
    "tests.move",
    "Begins a move to another model.",
    "UPDATE tenants SET embedding_target = 'another' WHERE tenant_id = %(tenant_id)s",
)
MEANT = Query(
    "tests.meant",
    "Every text with its vector and the names in it.",
    """SELECT i.content, v.embedding::text AS vector, ARRAY(
           SELECT e.key FROM mentions m JOIN entities e ON e.tenant_id = %(tenant_id)s AND e.entity_id = m.entity_id
           WHERE m.tenant_id = %(tenant_id)s AND m.item_id = i.item_id ORDER BY e.key) AS names
       FROM items i LEFT JOIN vectors v ON v.tenant_id = %(tenant_id)s AND v.item_id = i.item_id
       WHERE i.tenant_id = %(tenant_id)s""",
)
NAMES = Query("tests.names", "Every entity.", "SELECT key FROM entities WHERE tenant_id = %(tenant_id)s")
TURNS = ["My sister Ana moved to Lisbon in March", "Does she like it there?", "She loves the sea, and Tom misses her"]


@pytest.fixture
async def chat(memory: Memory) -> Memory:
    """A session of a tenant whose model is known, since something was embedded before."""
    await memory.update_tenant(settings={"extraction": "off"})
    talking = memory.acting_as(user="ana", session="talk")
    await talking.remember("Hello", scope="user", session_id="another")
    await work_off(memory)
    return talking


async def vectors_and_names(memory: Memory) -> dict[str, tuple[str, list[str]]]:
    """What is kept of the meaning of each text."""
    async with memory.resources.database.transaction(memory.identity) as tx:
        return {row["content"]: (row["vector"], row["names"]) for row in await tx.dicts(MEANT)}


async def waiting(memory: Memory) -> dict[str, int]:
    async with memory.resources.database.transaction(memory.identity) as tx:
        return (await outbox.count_by_topic(tx))[0]


async def test_a_message_is_found_by_meaning_at_once_and_nothing_is_left_to_do(chat: Memory) -> None:
    for text in TURNS:
        await chat.remember(text, scope="user", speaker="Eve")
        assert await waiting(chat) == {}
    answer = await chat.recall("Where does her sibling live?")
    assert not answer.degraded and answer.items[0].content == TURNS[0]


async def test_it_is_what_the_job_would_have_made_of_it(chat: Memory) -> None:
    for text in TURNS:
        await chat.remember(text, scope="user", speaker="Eve")
    at_once = await vectors_and_names(chat)
    assert at_once[TURNS[2]][1], "somebody is named"
    await Memory(chat.resources, replace(chat.identity, user_id=None, session_id=None)).reindex()
    await work_off(chat)
    assert await vectors_and_names(chat) == at_once


async def test_a_batch_is_what_the_job_would_have_made_of_it(chat: Memory) -> None:
    news = [NewItem(content=f"{text} ({number})", scope=Scope.USER) for number in range(5) for text in TURNS]
    await chat.remember_many(news)
    assert await waiting(chat) == {}
    at_once = await vectors_and_names(chat)
    await Memory(chat.resources, replace(chat.identity, user_id=None, session_id=None)).reindex()
    await work_off(chat)
    assert await vectors_and_names(chat) == at_once


async def test_a_large_batch_is_one_statement_with_every_vector_and_name(chat: Memory) -> None:
    people = [f"{first} {last}" for first in ("Rosa", "ROSA", "Olek", "Kaya") for last in ("Falk", "Lund", "Berg")]
    news = [
        NewItem(content=f"Line {number}: {people[number % 12]} met {people[number % 7]} there.", scope=Scope.USER)
        for number in range(300)
    ]
    await chat.remember(f"Yesterday {people[4]} called.", scope="user")
    with counted() as sent:
        await chat.remember_many(news)
    (name,) = [name for name in sent.statements if "insert_items" in name or "entities" in name]
    assert name.endswith(INSERT_ITEMS.name)  # on a cluster it is a function on a node
    assert sent.statements[name] == 1 and await waiting(chat) == {}
    at_once = await vectors_and_names(chat)
    assert at_once[news[2].content][1] == ["rosa berg"] and at_once[news[9].content][1] == ["kaya falk", "rosa berg"]
    assert all(vector for vector, _ in at_once.values())
    await Memory(chat.resources, replace(chat.identity, user_id=None, session_id=None)).reindex()
    await work_off(chat)
    assert await vectors_and_names(chat) == at_once


async def test_a_batch_names_nobody_of_an_item_that_stays_forgotten(memory: Memory, chat: Memory) -> None:
    bound = chat.bound(replace(chat.identity, session_id=None))
    kept = await bound.remember("We met Petra Ivanova there.", scope="user", source_ref="meeting")
    await memory.forget(kept.id)
    texts = [
        ("meeting", "We met Petra Ivanova there."),
        ("walk", "We walked with Nils Holm."),
        ("end", "It ended late."),
    ]
    await bound.remember_many([NewItem(content=text, scope=Scope.USER, source_ref=ref) for ref, text in texts])
    kept_names = [name for _, names in (await vectors_and_names(chat)).values() for name in names]
    assert kept_names == ["nils holm"]
    async with memory.resources.database.transaction(chat.identity) as tx:
        assert [row["key"] for row in await tx.dicts(NAMES)] == ["nils holm"]


async def test_a_text_that_replaces_another_has_its_own_vector_and_names(chat: Memory) -> None:
    await chat.put_entry(["trips"], "last", {"text": "Ana met Tom in Lisbon"})
    before = await vectors_and_names(chat)
    await chat.put_entry(["trips"], "last", {"text": "Ana met Zoe in Porto"})
    assert await waiting(chat) == {}
    at_once = await vectors_and_names(chat)
    (text,), (old,) = at_once.keys() - before.keys(), before.keys() - at_once.keys()
    assert at_once[text][0] != before[old][0] and at_once[text][1] != before[old][1]
    await Memory(chat.resources, replace(chat.identity, user_id=None, session_id=None)).reindex()
    await work_off(chat)
    assert await vectors_and_names(chat) == at_once


async def test_after_a_message_of_another_process_it_is_left_to_the_job(chat: Memory, settings: Settings) -> None:
    await chat.remember(TURNS[0], scope="user")
    async with open_resources(settings) as elsewhere:
        await Memory(elsewhere, chat.identity).remember(TURNS[1], scope="user")
    await chat.remember(TURNS[2], scope="user")
    assert (await chat.recall("sea")).degraded and (await waiting(chat))["embed"] >= 1
    await work_off(chat)
    by_job = await vectors_and_names(chat)
    assert by_job.keys() >= set(TURNS) and all(vector is not None for vector, _ in by_job.values())


async def test_the_head_of_a_forgotten_message_is_embedded_with_none(memory: Memory, chat: Memory) -> None:
    first = await chat.remember(TURNS[0], scope="user")
    await memory.forget(first.id)
    await chat.remember(TURNS[1], scope="user")
    assert await waiting(chat) == {"embed": 1}
    await work_off(chat)
    assert (await vectors_and_names(chat))[TURNS[1]][0] is not None


async def test_what_follows_is_asked_for_unless_the_tenant_does_not_want_it(memory: Memory, chat: Memory) -> None:
    await chat.remember_fact("Ana prefers tea")
    assert await waiting(chat) == {"judge": 1}
    await memory.update_tenant(settings={"extraction": "users"})
    await chat.remember(TURNS[0], scope="user")
    assert await waiting(chat) == {"judge": 1, "extract": 1}


class Broken:
    """A model that embeds nothing at once."""

    def __init__(self, behind: Embedder) -> None:
        self.model_id = behind.model_id
        self.dimensions = behind.dimensions
        self.embed_query = behind.embed_query
        self.embed_passages = behind.embed_passages
        self.close = behind.close

    def embed_now(self, text: str) -> Vector:
        raise RuntimeError(len(text))

    embed_query_now = embed_now


async def test_a_model_that_fails_leaves_it_to_the_job(chat: Memory) -> None:
    primary = chat.resources.embedders.primary
    assert primary is not None
    embedders = Embedders(cast("Embedder", Broken(primary)), lambda _: None)
    broken = Memory(replace(chat.resources, embedders=embedders), chat.identity)
    await broken.remember(TURNS[0], scope="user")
    assert await waiting(chat) == {"embed": 1}


async def test_while_the_tenant_moves_to_another_model_it_is_left_to_the_job(memory: Memory, chat: Memory) -> None:
    async with memory.resources.database.transaction(memory.identity) as tx:
        assert await tx.run(MOVE)
    await chat.remember(TURNS[0], scope="user")
    assert await waiting(chat) == {"embed": 1}


async def test_what_is_said_at_once_in_one_session_is_all_embedded(chat: Memory) -> None:
    said = [f"{who} spoke of {what}" for who in ("Ana", "Tom", "Zoe") for what in ("boats", "bread", "birds")]
    for _ in range(2):  # the second time there are several that each may follow
        news = [[NewItem(content=text), NewItem(content=f"{text} again")] for text in said]
        await asyncio.gather(*(chat.remember_many(some) for some in news))
    await work_off(chat, "embed")
    assert await waiting(chat) == {} and not (await chat.recall("boats")).degraded
    assert all(vector for vector, _ in (await vectors_and_names(chat)).values())


def test_words_seen_before_have_the_tokens_that_the_tokeniser_gives_them() -> None:
    files = require_model(RESCORER)
    tokens, tokeniser = StaticTokens(files), Tokenizer.from_file(str(files.tokenizer))
    tokeniser.no_truncation()
    chosen = random.Random(7)
    alphabet = [chr(code) for code in range(1, 128)] + list("aeiou   é漢")
    texts = ["".join(chosen.choices(alphabet, k=chosen.randrange(80))) for _ in range(500)]
    texts += [" ".join(chosen.choices(["don't", "Re-do", "A.B", "x" * 120, "[UNK]", "naïve"], k=6)) for _ in range(100)]
    limit = files.spec.max_tokens
    for text in texts:
        ids = tokeniser.encode(text, add_special_tokens=False).ids
        assert list(tokens.token_ids([text])[0]) == [one for one in ids if one != tokens.unknown_id][:limit]


async def test_an_import_that_brings_its_vectors_has_the_index_looked_at(chat: Memory) -> None:
    await chat.remember_many([NewItem(content=f"line {number}", scope=Scope.USER) for number in range(100)])
    assert "embed" not in await waiting(chat)
    assert [job.job for job in await chat.bound(replace(chat.identity, user_id=None)).list_jobs()] == ["vector_index"]
