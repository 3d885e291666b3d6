"""The leak guard: passages of protected documents do not become memories (F7, seed 003 D4)."""

from __future__ import annotations

import unicodedata
from uuid import UUID

import psycopg
import pytest
from tests.external_server import not_on_cluster
from tests.stored import rows
from tests.transfer.test_export import lines_of
from tests.working import settled, work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.core.items import Kind, NewItem
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.tenants import storage as tenant_rows
from recordari.tenants import tenants

FIRST = "Members may borrow up to six tools at once and keep each of them for fourteen days from the day of collection."
SECOND = (
    "A tool that comes back late costs two crowns a day; the fee is waived once a year for members who ask for it at the "
    "desk before the end of the month."
)
THIRD = "Power tools leave the shed only with a member who took the safety course, and never for longer than a weekend."
HANDBOOK = f"""# Tool library

Welcome. The shed is open on Tuesdays and Saturdays, and volunteers at the desk answer every question that comes up.

{FIRST}

{SECOND}

{THIRD}

Broken tools go into the red crate next to the door. Please leave a note that says what happened, so that we can mend them.
"""
GERMAN = (
    "Kündigungen sind schriftlich bis zum fünfzehnten eines Monats einzureichen; die Frist beträgt für beide Seiten drei "
    "Monate, während der Probezeit zwei Wochen."
)
GUARDED = "copies a protected document"


@pytest.fixture
def chat(memory: Memory) -> Memory:
    agent = Identity(tenant_id=memory.identity.tenant_id)
    return memory.bound(agent).acting_as(user="ana", agent="helper", session="chat-1")


async def handbook(memory: Memory, text: str = HANDBOOK) -> UUID:
    await memory.add_source("handbook")
    await memory.add_document("tools.md", text=text, source="handbook")
    (source,) = await memory.list_sources()
    return source.source_id


async def protected(memory: Memory, text: str = HANDBOOK) -> UUID:
    source_id = await handbook(memory, text)
    await memory.protect_source(source_id)
    return source_id


async def live_facts(memory: Memory) -> list[str]:
    return sorted(item.content for item in (await memory.list_items(kinds=["fact"])).items)


@pytest.mark.parametrize("paragraph", [FIRST, SECOND, THIRD])
async def test_a_paragraph_from_inside_a_document_is_refused(memory: Memory, chat: Memory, paragraph: str) -> None:
    await protected(memory)
    for copy in (
        paragraph,
        paragraph.upper(),
        f"* **{paragraph}**".replace(" ", "\n", 3),
        f"Bo asked me to write down that {paragraph} He said so twice, and then he went home.",
        paragraph.replace(" the ", " this ", 1),
    ):
        with pytest.raises(InvalidInput, match=GUARDED):
            await chat.remember_fact(copy)
    assert await live_facts(memory) == []


async def test_a_source_is_protected_whole_however_many_texts_it_has(
    memory: Memory, chat: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several statements, because each has a time limit."""
    monkeypatch.setattr(tenant_rows, "GUARDED_AT_ONCE", 2)
    source_id = await handbook(memory)
    for number, text in enumerate((FIRST, SECOND, THIRD, GERMAN)):
        await memory.add_document(f"{number}.md", text=text, source="handbook")
    assert await memory.protect_source(source_id) == 5
    assert await memory.protect_source(source_id) == 0
    for copy in (FIRST, SECOND, THIRD, GERMAN):
        with pytest.raises(InvalidInput, match=GUARDED):
            await chat.remember_fact(copy)


async def test_a_passage_over_several_paragraphs_and_a_part_of_a_sentence_are_refused(
    memory: Memory, chat: Memory
) -> None:
    await protected(memory)
    for copy in (f"{FIRST} {SECOND}", f"{SECOND[60:]} {THIRD[:70]}", SECOND[20:140]):
        with pytest.raises(InvalidInput, match=GUARDED):
            await chat.remember_fact(copy)


async def test_own_words_and_short_quotes_are_kept(memory: Memory, chat: Memory) -> None:
    await protected(memory)
    for own in (
        "Ana borrowed the belt sander and the long ladder; she wants to be reminded a day before her fourteen days are over.",
        "Late returns are charged by the day, but Ana knows that they forgive it once a year if she asks in time.",
        "Bo has taken the safety course, so Ana will ask him to fetch the circular saw for her on Saturday morning.",
        'The handbook says "up to six tools at once", which Ana finds too few: she is building a boat and needs nine of them.',
        FIRST[:99],
    ):
        assert (await chat.remember_fact(own)).was_new


@pytest.mark.parametrize(
    ("paragraph", "copy"),
    [
        (FIRST, "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in FIRST)),
        (GERMAN, unicodedata.normalize("NFD", GERMAN).encode("ascii", "ignore").decode()),
        (GERMAN, unicodedata.normalize("NFD", GERMAN)),
        (unicodedata.normalize("NFD", GERMAN), GERMAN),
        (SECOND, SECOND.replace("fi", "ﬁ").replace("...", "…")),
    ],
    ids=["full width", "without accents", "accents apart", "accents together", "ligatures"],
)
async def test_a_copy_is_found_in_every_form_of_unicode(
    memory: Memory, chat: Memory, paragraph: str, copy: str
) -> None:
    await protected(memory, f"# Rules\n\nOne word first.\n\n{paragraph}\n\nAnd one at the end.")
    with pytest.raises(InvalidInput, match=GUARDED):
        await chat.remember_fact(copy)


async def test_a_copy_is_found_in_languages_that_write_no_spaces(memory: Memory, chat: Memory) -> None:
    rule = (
        "会員は一度に六つまで道具を借りることができ、受け取りの日から十四日間使うことができます。返却が遅れた場合は、一日につき二クローネの料金がかかりますが、"
        "月末までに受付で申し出た会員は、年に一度だけ免除されます。電動工具は、安全講習を受けた会員だけが持ち出せます。"
    )
    opening = "# 道具図書館\n\nようこそ。小屋は火曜日と土曜日に開いています。"
    await protected(memory, f"{opening}\n\n{rule}\n\n壊れた道具は赤い箱に入れてください。")
    with pytest.raises(InvalidInput, match=GUARDED):
        await chat.remember_fact(f"アナは今朝こう言いました。{rule}それから帰りました。")
    assert (
        await chat.remember_fact("アナは道具図書館の会員で、先週の土曜日に長い梯子と電動の鋸を借りました。" * 3)
    ).was_new


async def test_no_other_way_of_writing_lets_a_copy_in(memory: Memory, chat: Memory, settings: Settings) -> None:
    await protected(memory)
    fact = await chat.remember_fact("Ana likes the tool library")
    said = await chat.remember(FIRST, source_ref="said")
    news = [NewItem(content="Ana has a cat", kind=Kind.FACT), NewItem(content=SECOND, kind=Kind.FACT)]
    for attempt in (
        chat.remember_many(news),
        chat.edit_item(fact.id, SECOND),
        chat.put_entry(["drafts"], "rules", {"text": SECOND}),
    ):
        with pytest.raises(InvalidInput, match=GUARDED):
            await attempt
    assert await live_facts(memory) == ["Ana likes the tool library"]
    for column, value, item_id in (("kind", "fact", said.id), ("content", FIRST, fact.id)):
        with pytest.raises(psycopg.errors.CheckViolation) as refused:
            as_tenant(settings, memory, "ana", f"UPDATE items SET {column} = %s WHERE item_id = %s", value, item_id)
        assert refused.value.sqlstate == "23514"


def as_tenant(settings: Settings, memory: Memory, user: str, statement: str, *parameters: object) -> None:
    """Run a statement of somebody who has the application's own connection."""
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url.get_secret_value()) as connection:
        connection.execute(f"SET LOCAL app.tenant_id = '{memory.identity.tenant_id}'")
        connection.execute(f"SET LOCAL app.user_id = '{user}'")
        connection.execute("SET search_path = recordari, public")
        assert connection.execute(statement, parameters).rowcount == 1


async def test_copies_that_were_there_before_end_and_come_back_only_without_protection(
    memory: Memory, chat: Memory
) -> None:
    copy = await chat.remember_fact(f"Bo says: {SECOND}")
    pinned = await chat.remember_fact(FIRST)
    await chat.pin_item(pinned.id)
    own = await chat.remember_fact("Ana borrowed the belt sander, the long ladder, two saws and a plane " * 2)
    source_id = await protected(memory)
    await settled(memory)
    assert await live_facts(memory) == [(await memory.get_item(own.id)).content]
    audited = {entry.subject_id for entry in await memory.list_audit(limit=50) if entry.action == "item.invalidate"}
    assert audited == {str(copy.id), str(pinned.id)}
    with pytest.raises(InvalidInput, match=GUARDED):
        await memory.restore_item(copy.id)
    await memory.unprotect_source(source_id)
    await memory.restore_item(copy.id)
    assert len(await live_facts(memory)) == 2


async def test_a_later_document_of_a_protected_source_ends_copies_too(memory: Memory, chat: Memory) -> None:
    await protected(memory, "# Tool library\n\nWelcome.")
    await chat.remember_fact(THIRD)
    await memory.add_document("more.md", text=HANDBOOK, source="handbook")
    await work_off(memory, "end_copies")
    assert await live_facts(memory) == []
    await work_off(memory, "end_copies")


async def test_an_import_brings_no_copy_though_the_protection_comes_after_the_facts(
    memory: Memory, chat: Memory, resources: Resources
) -> None:
    fact = await chat.remember_fact(SECOND)
    await chat.remember_fact("Ana likes the tool library")
    await protected(memory)
    other = await tenants.ensure_tenant(resources, "elsewhere")
    elsewhere = memory.bound(Identity(tenant_id=other.tenant_id, role=memory.identity.role))
    exported = await lines_of(memory)
    for _ in range(2):
        await elsewhere.import_export(exported)
        await work_off(elsewhere, "end_copies")
    assert await live_facts(elsewhere) == ["Ana likes the tool library"]
    await work_off(memory)
    ended = await lines_of(memory)
    third = await tenants.ensure_tenant(resources, "third")
    there = memory.bound(Identity(tenant_id=third.tenant_id, role=memory.identity.role))
    await there.import_export(ended)
    await there.import_export(ended)
    assert (await there.get_item(fact.id)).invalid_at is not None, "what ended here is history there"


async def test_the_other_facts_of_a_message_are_kept_when_one_is_refused(memory: Memory, chat: Memory) -> None:
    await protected(memory)
    said = await chat.remember(f"I live in Lund. We decided that {FIRST[0].lower()}{FIRST[1:]} My dog is called Rex.")
    await settled(memory)
    kept = " ".join(await live_facts(memory))
    assert "Lund" in kept and "Rex" in kept and "fourteen" not in kept
    (refused,) = [entry for entry in await memory.list_audit(limit=50) if entry.action == "fact.refuse"]
    assert (refused.subject_id, refused.details) == (str(said.id), {"facts": 1})
    assert await memory.list_dead_letters() == []


async def test_a_tenant_is_compared_with_its_own_documents_only(memory: Memory, resources: Resources) -> None:
    await protected(memory)
    other = await tenants.ensure_tenant(resources, "other")
    stranger = memory.bound(Identity(tenant_id=other.tenant_id)).acting_as(user="eve")
    assert (await stranger.remember_fact(FIRST)).was_new


@not_on_cluster("it looks at the plan of one server")
async def test_the_guard_reads_only_texts_that_share_a_fingerprint(memory: Memory, settings: Settings) -> None:
    """Under the settings of the function, and with no statistics."""
    await protected(memory)
    (found,) = rows(settings, "SELECT proconfig FROM pg_proc WHERE proname = 'shadows_protected'")
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value(), autocommit=True) as connection:
        for setting in found["proconfig"]:
            connection.execute(f"SET {setting}")
        plan = connection.execute(
            "EXPLAIN SELECT FROM protected_texts p WHERE p.fingerprints && %s::integer[] AND p.tenant_id::text = %s",
            [[1, 2, 3], str(memory.identity.tenant_id)],
        ).fetchall()
    assert any("protected_texts_by_fingerprint" in str(line) for line in plan), plan
