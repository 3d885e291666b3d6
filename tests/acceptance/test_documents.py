"""K1 and the documents of R5: taken in, found with a citation, revised, read, removed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.pdf_writer import written
from tests.stored import rows
from tests.working import at, work_off

from recordari.app import Memory
from recordari.core.identity import Identity, Role
from recordari.errors import Forbidden, InvalidInput, NotFound, TooLarge
from recordari.recall.accesses import AccessCounts
from recordari.tenants import tenants

HANDBOOK = """# Returns

Parcels can be sent back within 30 days.

## Exceptions

Food and flowers are not taken back. Ask the duty manager about anything that was engraved.

## Refund times

| method | days |
|---|---|
| card | 5 |
| transfer | 2 |
"""


@pytest.fixture
async def other(memory: Memory) -> Memory:
    tenant = await tenants.ensure_tenant(memory.resources, "other")
    return Memory(memory.resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))


async def test_a_document_is_found_with_a_citation_of_where_it_says_so(memory: Memory) -> None:
    filler = "\n\n".join(f"Sentence {n} of a long chapter about shelves and their many uses." for n in range(60))
    await memory.add_document("handbook.md", text=f"# Handbook\n\n{filler}\n\n{HANDBOOK}")
    answer = await memory.search_knowledge("engraved gifts duty manager", top_k=1)
    (item,) = answer.items
    assert item.citation is not None
    assert (item.citation.document, item.citation.revision) == ("handbook.md", 1)
    assert item.citation.heading[0] == "Returns"
    whole = await memory.read_document(item.citation.document_id, limit=200)
    assert whole.text[item.citation.first : item.citation.past] == item.content
    around = await memory.read_document(item.citation.document_id, first=item.citation.ordinal - 1, limit=2)
    assert [chunk.ordinal for chunk in around.chunks] == [item.citation.ordinal - 1, item.citation.ordinal]
    assert around.chunks[1].item_id == item.id


async def test_an_image_is_found_by_its_caption_and_given_back(memory: Memory) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(200)
    with pytest.raises(InvalidInput, match="caption"):
        await memory.add_document("pump.png", picture)
    caption = "The pump of the well with its cover open"
    added = await memory.add_document("pump.png", picture, metadata={"caption": caption})
    answer = await memory.search_knowledge("Which picture shows the open pump?")
    assert [item.content for item in answer.items] == [caption]
    assert await memory.read_original(added.document.document_id) == (picture, "image/png")


async def test_a_long_question_is_bounded_like_a_short_one_and_uses_only_what_it_shows(memory: Memory) -> None:
    for number in range(8):
        await memory.add_document(f"shelf-{number}.md", text=f"# Shelf {number}\n\nShelf {number} holds books.")
    question = " ".join(
        f"Which books does shelf {number} hold, and since when has it held them?" for number in range(12)
    )
    for top_k in (0, -1, 51):
        with pytest.raises(InvalidInput, match="top_k"):
            await memory.search_knowledge(question, top_k=top_k)
    with pytest.raises(InvalidInput, match="at most"):
        await memory.search_knowledge(question * 20)
    answer = await memory.search_knowledge(question, top_k=2)
    assert len(answer.items) == 2
    assert await memory.resources.get(AccessCounts).flush() == 2


# "Stale revisions are soft-deleted by finalize_ingestion_activity (latest revision only)."
async def test_a_revision_replaces_the_one_before_in_recall_at_once(memory: Memory) -> None:
    added = await memory.add_document("policy.md", text="# Travel\n\nHotels cost at most 120 euros a night.")
    await work_off(memory)
    before = memory.resources.clock()
    revised = await memory.add_document("policy.md", text="# Travel\n\nHotels cost at most 150 euros a night.")
    assert (revised.document.revision, revised.was_new, revised.changed) == (2, False, True)
    assert revised.document.document_id == added.document.document_id
    (item,) = (await memory.search_knowledge("hotel costs", top_k=5)).items
    assert "150" in item.content and item.citation is not None and item.citation.revision == 2
    (then,) = (await memory.recall("hotel costs", source_kinds=["document_chunk"], as_of=before)).items
    assert "120" in then.content


def vectors_made(memory: Memory) -> set[tuple[Any, Any]]:
    """The vectors of document chunks; one that is made anew is another."""
    kept = "SELECT item_id, xmin::text FROM vectors WHERE tenant_id = %s AND kind = 'document_chunk' AND live"
    return {(row["item_id"], row["xmin"]) for row in rows(memory.resources.settings, kept, memory.identity.tenant_id)}


# "Embedding is reused from the ingestion pipeline — no double-embed cost."
async def test_chunks_that_did_not_change_keep_their_vectors(memory: Memory) -> None:
    chapters = [f"## Chapter {n}\n\n" + f"This is about the topic number {n}. " * 30 for n in range(5)]
    await memory.add_document("book.md", text="# Book\n\n" + "\n\n".join(chapters))
    await work_off(memory)
    before = vectors_made(memory)
    chapters[2] = "## Chapter 2\n\n" + "This is what was written anew now. " * 30
    revised = await memory.add_document("book.md", text="# Book\n\n" + "\n\n".join(chapters))
    assert revised.chunks_added <= 2 and revised.chunks_kept >= 3
    await work_off(memory)
    assert len(vectors_made(memory) - before) == revised.chunks_added
    order = (await memory.read_document(revised.document.document_id, limit=200)).text
    assert order.index("number 1") < order.index("written anew") < order.index("number 3")


async def test_the_same_file_again_changes_nothing(memory: Memory) -> None:
    first = await memory.add_document("a.txt", b"The same words")
    again = await memory.add_document("a.txt", b"The same words")
    assert (again.changed, again.document) == (False, first.document)
    retitled = await memory.add_document("a.txt", b"The same words", metadata={"title": "Words"})
    assert retitled.document.revision == 2 and retitled.document.title == "Words"


async def test_one_name_in_two_sources_is_two_documents(memory: Memory) -> None:
    for name in ("north", "south"):
        await memory.add_source(name, description=f"Rules of the {name}")
        await memory.add_document("rules.md", text=f"Winter tyres are needed in the {name}", source=name)
    found = await memory.search_knowledge("winter tyres", source="south")
    assert [item.content for item in found.items] == ["Winter tyres are needed in the south"]
    assert found.items[0].citation is not None and found.items[0].citation.source == "south"
    await work_off(memory)
    found = await memory.search_knowledge("tires for the snow", source="north")
    assert [item.content for item in found.items] == ["Winter tyres are needed in the north"]
    assert len(await memory.list_documents(source="north")) == 1
    with pytest.raises(NotFound):
        await memory.search_knowledge("winter tyres", source="east")
    with pytest.raises(NotFound):
        await memory.add_document("x.md", text="x", source="east")


async def test_a_removed_document_leaves_recall_and_its_source_at_once(memory: Memory) -> None:
    added = await memory.add_document("gone.md", text="The vault code is under the mat")
    await memory.delete_document(added.document.document_id)
    assert (await memory.search_knowledge("vault code")).items == ()
    assert "documents" not in (await memory.knowledge_map()).replace("What can be", "")
    with pytest.raises(NotFound):
        await memory.read_document(added.document.document_id)
    with pytest.raises(NotFound):
        await memory.read_original(added.document.document_id)
    back = await memory.add_document("gone.md", text="The vault code is under the mat")
    assert back.was_new and (await memory.search_knowledge("vault code")).total == 1


async def test_a_text_that_retention_ended_may_come_back_and_one_that_a_person_forgot_may_not(memory: Memory) -> None:
    text = "# Contacts\n\nCall Mrs Tannenbaum at home."
    added = await memory.add_document("contacts.md", text=text)
    await memory.delete_document(added.document.document_id)
    later = at(memory, datetime(2099, 1, 1, tzinfo=UTC))
    await later.sweep(force=True)
    assert (await memory.add_document("contacts.md", text=text)).chunks_added == 1
    (item,) = (await memory.search_knowledge("Tannenbaum")).items
    await memory.forget(item.id)
    await memory.add_document("contacts.md", text="The desk is open all day.")
    await memory.add_document("contacts.md", text=text)
    assert (await memory.search_knowledge("Tannenbaum")).items == ()


async def test_the_file_is_kept_unless_something_had_to_be_taken_out_of_it(memory: Memory) -> None:
    added = await memory.add_document("plain.md", b"# Plain\n\nNothing to hide.")
    assert await memory.read_original(added.document.document_id) == (b"# Plain\n\nNothing to hide.", "text/markdown")
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA1bC3dE5"
    masked = await memory.add_document("secret.md", text=f"The token is {secret} for now.")
    assert masked.masked and not masked.document.has_original
    assert secret not in (await memory.read_document(masked.document.document_id)).text
    with pytest.raises(NotFound):
        await memory.read_original(masked.document.document_id)


async def test_forgetting_a_chunk_forgets_the_file_it_came_in(memory: Memory) -> None:
    added = await memory.add_document("people.md", text="Mr Quill was born in Ghent.")
    (item,) = (await memory.search_knowledge("Quill")).items
    await memory.forget(item.id)
    with pytest.raises(NotFound):
        await memory.read_original(added.document.document_id)
    assert (await memory.read_document(added.document.document_id)).text == ""


async def test_large_and_binary_files_go_to_the_object_store(memory: Memory, tmp_path: Path) -> None:
    objects = memory.resources.settings.home / "objects"
    pdf = written(["The pump is serviced every May."])
    added = await memory.add_document("pump.pdf", pdf)
    assert len([path for path in objects.rglob("*") if path.is_file()]) == 1
    assert await memory.read_original(added.document.document_id) == (pdf, "application/pdf")
    await memory.add_document("pump.pdf", written(["The pump is serviced every June."]))
    assert len([path for path in objects.rglob("*") if path.is_file()]) == 1
    await memory.delete_document(added.document.document_id)
    assert not [path for path in objects.rglob("*") if path.is_file()]


async def test_a_pdf_of_200_pages_is_read_with_progress_and_cited_by_page_and_chapter(memory: Memory) -> None:
    pages = [
        f"Page {n} of the manual.\n"
        + " ".join(f"Valve {n}-{m} opens at {m} bar and is painted grey." for m in range(40))
        for n in range(1, 201)
    ]
    pages[149] += "\nThe emergency siren is tested on Tuesdays."
    seen: list[tuple[int, int]] = []
    added = await memory.add_document(
        "manual.pdf",
        written(pages, contents={"Basics": 1, "Alarms": 140}),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert added.document.pages == 200 and added.document.chunks > 200
    assert (1, 200) in seen and (200, 200) in seen
    assert seen[-1] == (added.document.chunks, added.document.chunks)
    (item,) = (await memory.search_knowledge("When is the emergency siren tested?", top_k=1)).items
    assert item.citation is not None
    assert (item.citation.page, item.citation.heading) == (150, ("Alarms",))
    revised = await memory.add_document("manual.pdf", written([*pages[:149], "The siren is gone.", *pages[150:]]))
    assert revised.document.revision == 2
    found = await memory.search_knowledge("When is the emergency siren tested?", top_k=20)
    assert not [one for one in found.items if "Tuesdays" in one.content]


async def test_agents_read_documents_and_do_not_write_them(memory: Memory) -> None:
    added = await memory.add_document("a.md", text="Agents may read this")
    agent = memory.bound(replace(memory.identity, role=Role.AGENT)).acting_as(agent="support", user="ana")
    assert (await agent.search_knowledge("who may read")).total == 1
    assert (await agent.read_document(added.document.document_id)).text == "Agents may read this"
    for refused in (
        agent.add_document("b.md", text="no"),
        agent.delete_document(added.document.document_id),
        agent.read_original(added.document.document_id),
        agent.add_source("mine"),
    ):
        with pytest.raises(Forbidden):
            await refused


async def test_what_cannot_be_taken_in_is_refused_and_changes_nothing(memory: Memory) -> None:
    await memory.add_document("kept.md", text="The first revision")
    small = Memory(
        replace(memory.resources, settings=memory.resources.settings.model_copy(update={"document_max_bytes": 2048})),
        memory.identity,
    )
    for raised, attempt in (
        (TooLarge, small.add_document("kept.md", b"x" * 3000)),
        (InvalidInput, memory.add_document("kept.md", b"")),
        (InvalidInput, memory.add_document("kept.md", b"\xff\xfe\xfa\x00\x01")),
        (InvalidInput, memory.add_document("", text="no name")),
        (InvalidInput, memory.add_document("kept.md")),
        (InvalidInput, memory.add_document("kept.md", b"a", text="b")),
        (InvalidInput, memory.add_document("kept.md", b"GIF89a", media_type="image/gif")),
        (InvalidInput, memory.add_document("kept.pdf", b"%PDF-1.7 broken")),
    ):
        with pytest.raises(raised):
            await attempt
    (document,) = await memory.list_documents()
    assert (document.name, document.revision) == ("kept.md", 1)
    with pytest.raises(NotFound):
        await memory.get_document(uuid4())


async def test_documents_of_another_tenant_do_not_exist(memory: Memory, other: Memory) -> None:
    added = await memory.add_document("a.md", text="A secret of the first tenant")
    for attempt in (
        other.get_document(added.document.document_id),
        other.read_document(added.document.document_id),
        other.delete_document(added.document.document_id),
        other.get_source(added.document.source_id),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await other.search_knowledge("secret")).items == ()
    assert await other.list_documents() == [] and await other.list_sources() == []


async def test_no_fact_copies_a_protected_source(memory: Memory) -> None:
    canon = (
        "The charter says that every member has one vote, that the chair has none, and that ties are settled by lot."
    )
    added = await memory.add_document("charter.md", text=canon)
    assert await memory.protect_source(added.document.source_id) == 1
    with pytest.raises(InvalidInput, match="copies a protected document"):
        await memory.acting_as(user="ana").remember_fact(canon)


async def test_reindexing_keeps_headings_searchable(memory: Memory) -> None:
    await memory.add_document("h.md", text="# Zeppelin hangar\n\nThe doors open at seven.")
    await memory.reindex()
    assert (await memory.search_knowledge("zeppelin")).total == 1


async def test_a_long_question_has_the_same_answer_with_its_trace(memory: Memory) -> None:
    for topic in ("card limits", "fees abroad", "lost cards", "new cards"):
        await memory.add_document(f"{topic}.md", text=f"What to know about {topic}.\n\nAsk the desk about {topic}.")
    asked = "Hello, I have been a customer for years and travel a lot. " * 9
    question = (
        f"{asked} Can I raise the limit of it? Which card has no fees abroad? What if I have lost my card? Thanks."
    )
    plain = await memory.search_knowledge(question, top_k=3)
    traced = await memory.search_knowledge(question, top_k=3, explain=True)
    assert traced.items == plain.items and plain.trace is None and traced.trace is not None
    assert "What if I have lost my card?" in [part["query"] for part in traced.trace["parts"]]
