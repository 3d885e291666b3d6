"""Measure the leak guard: copies of protected documents that it refuses, honest texts that it refuses, and its cost.

    python bench/guard.py --data ../shared/data [--copies 300] [--sizes 200 20000]

The documents of `knowledge/*/documents` are added to a source and protected. Their paragraphs of at least 100 characters are
then written through every door that makes semantic memory: as they are, inside another sentence, with one word changed,
as the new text of a fact, as an entry, and in a message whose other sentence must become a fact. Before the protection, some
are written too: they must end. Honest texts are the turns of LoCoMo and the scenarios that people wrote about those
documents. The cost is the processor time of the database for one check, in tenants with none, 200 and 20,000 protected texts.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.core.items import COMPARED_FROM, Kind, NewItem
from recordari.db import outbox
from recordari.db.address import embedded_server
from recordari.errors import InvalidInput
from recordari.knowledge.rules.chunks import chunked
from recordari.knowledge.rules.markup import blocks_of_markdown
from recordari.runner import background_worker

RESULTS = Path(__file__).parent / "results"
TICKS = os.sysconf("SC_CLK_TCK")
Write = Callable[[Memory, str, int], Awaitable[Any]]


def main() -> int:
    """Measure, print, save."""
    arguments = _arguments()
    folder = arguments.data / "knowledge"
    documents = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*/documents/*.json"))]
    if not documents:
        print(f"skipped: no documents under {folder}")
        return 0
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        figures = asyncio.run(_measure(Settings(home=Path(home) / "home"), documents, arguments))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "guard.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--copies", type=int, default=300, help="paragraphs that are copied through each door")
    parser.add_argument("--honest", type=int, default=3_000, help="honest texts that are written")
    parser.add_argument("--sizes", type=int, nargs="*", default=[200, 20_000], help="protected texts for the cost")
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


async def _measure(settings: Settings, documents: Sequence[Any], arguments: argparse.Namespace) -> dict[str, Any]:
    draw = random.Random(arguments.seed)
    paragraphs = [
        text
        for each in documents
        for part in each["content"].split("\n\n")
        if len(text := part.strip()) >= COMPARED_FROM
    ]
    drawn = draw.sample(sorted(set(paragraphs)), min(arguments.copies * 6 // 5, len(set(paragraphs))))
    copies, early = drawn[: arguments.copies], drawn[arguments.copies :]
    async with Memory.open(settings=settings) as memory:
        agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana", agent="helper")
        earlier = [(await agent.remember_fact(text)).id for text in early]
        await memory.add_source("handbook")
        for each in documents:
            await memory.add_document(
                f"{each['id']}.md", text=f"# {each['title']}\n\n{each['content']}", source="handbook"
            )
        (source,) = await memory.list_sources()
        texts = await memory.protect_source(source.source_id)
        print(f"{len(documents)} documents, {texts} protected texts, {len(paragraphs)} paragraphs")
        figures: dict[str, Any] = {"copies": await _copies(agent, copies)}
        ended, kept = await _after_work(memory, agent, earlier, copies)
        _show("facts that were there before the protection: ended", ended, len(earlier))
        _show("messages with a copy and a fact of their own: no copy, and the other fact kept", kept, len(copies))
        figures |= {"earlier": [ended, len(earlier)], "messages": [kept, len(copies)]}
        figures["honest"] = await _honest(agent, arguments.data, arguments.honest, draw)
        owner_dsn = embedded_server(settings).dsn(database="recordari")
        figures["cost"] = _costs(owner_dsn, memory.identity.tenant_id, list(_fill(arguments.data)), arguments.sizes)
    return figures


async def _alone(agent: Memory, text: str, number: int) -> None:
    await agent.remember_fact(text)


async def _wrapped(agent: Memory, text: str, number: int) -> None:
    await agent.remember_fact(f"Ana told me on her way to the harbour that {text} That was all she said before lunch.")


async def _changed(agent: Memory, text: str, number: int) -> None:
    words = text.split(" ")
    words[len(words) // 2] = "porcelain"
    await agent.remember_fact(" ".join(words))


async def _in_a_batch(agent: Memory, text: str, number: int) -> None:
    cats = NewItem(content=f"Ana has {number} cats", kind=Kind.FACT)
    await agent.remember_many([cats, NewItem(content=text, kind=Kind.FACT)])


async def _edited(agent: Memory, text: str, number: int) -> None:
    fact = await agent.remember_fact(f"Ana saw {number} ships from the pier")
    await agent.edit_item(fact.id, text)


async def _as_entry(agent: Memory, text: str, number: int) -> None:
    await agent.put_entry(["drafts"], str(number), {"text": text})


DOORS: dict[str, Write] = {
    "remember_fact": _alone,
    "remember_fact, inside another text": _wrapped,
    "remember_fact, a word changed": _changed,
    "remember_many": _in_a_batch,
    "edit_item": _edited,
    "put_entry": _as_entry,
}


async def _copies(agent: Memory, copies: Sequence[str]) -> dict[str, list[int]]:
    """For each door, how many copies it refused."""
    counts = {}
    for name, write in DOORS.items():
        refused = 0
        for number, text in enumerate(copies):
            refused += await _is_refused(write(agent, text, number))
        counts[name] = [refused, len(copies)]
        _show(f"{name}: copies refused", refused, len(copies))
    return counts


async def _is_refused(attempt: Awaitable[Any]) -> bool:
    try:
        await attempt
    except InvalidInput as error:
        assert "copies a protected document" in str(error), error
        return True
    return False


async def _after_work(memory: Memory, agent: Memory, earlier: Sequence[UUID], copies: Sequence[str]) -> tuple[int, int]:
    """How many earlier copies ended, and how many messages kept their other fact and gave no copy."""
    for number, text in enumerate(copies):
        await agent.acting_as(session=f"s{number}").remember(f"I live in Port {number}. I prefer that {text}")
    async with background_worker(memory.resources):
        while await _is_busy(memory):
            await asyncio.sleep(0.2)
    ended = sum([(await memory.get_item(item_id)).invalid_at is not None for item_id in earlier])
    facts: list[str] = []
    page = await memory.list_items(kinds=["fact"], limit=200, state="any")
    while page.items:
        facts += [item.content for item in page.items]
        if page.next_before is None:
            break
        page = await memory.list_items(kinds=["fact"], limit=200, state="any", before=page.next_before)
    said = "\n".join(facts)
    kept = sum(f"Port {number}" in said and text not in said for number, text in enumerate(copies))
    return ended, kept


async def _is_busy(memory: Memory) -> bool:
    async with memory.resources.database.transaction(memory.identity) as tx:
        waiting, _ = await outbox.count_by_topic(tx)
    return bool(waiting)


async def _honest(agent: Memory, data: Path, most: int, draw: random.Random) -> dict[str, list[int]]:
    """How many honest texts are refused."""
    turns = _turns(data / "locomo" / "locomo10.json")
    scenarios = [
        part.strip()
        for file in sorted((data / "knowledge").glob("*/tasks.json"))
        for task in json.loads(file.read_text("utf-8"))
        for part in str(task["user_scenario"]["instructions"]).split("\n\n")
        if len(part.strip()) >= COMPARED_FROM
    ]
    counts = {}
    for name, texts in {"chat": turns, "scenarios about the documents": scenarios}.items():
        texts = draw.sample(texts, min(most, len(texts)))
        refused = 0
        for text in texts:
            refused += await _is_refused(agent.remember_fact(text))
        counts[name] = [refused, len(texts)]
        _show(f"{name}: refused by mistake", refused, len(texts))
    return counts


def _turns(file: Path) -> list[str]:
    if not file.is_file():
        print(f"skipped: {file} is absent")
        return []
    return [
        turn["text"]
        for conversation in json.loads(file.read_text("utf-8"))
        for session in conversation["conversation"].values()
        if isinstance(session, list)
        for turn in session
        if len(turn["text"]) >= COMPARED_FROM
    ]


def _fill(data: Path) -> Iterator[str]:
    """Texts as long as chunks: the answers of LongMemEval, cut as documents are."""
    file = data / "longmemeval" / "longmemeval_s_dev60.json.gz"
    if not file.is_file():
        print(f"skipped: {file} is absent")
        return
    with gzip.open(file) as opened:
        questions = json.load(opened)
    answers = {turn["content"] for each in questions for one in each["haystack_sessions"] for turn in one}
    for answer in sorted(answers):
        yield from (chunk.content for chunk in chunked(blocks_of_markdown(answer)) if len(chunk.content) > 400)


def _costs(owner_dsn: str, tenant_id: UUID, fill: list[str], sizes: Sequence[int]) -> dict[str, float]:
    """Milliseconds of processor time of the database for one check, by the number of protected texts."""
    figures: dict[str, float] = {}
    random.Random(1).shuffle(fill)
    checks = [text[:300] for text in fill[-400:]]
    with psycopg.connect(owner_dsn, autocommit=True) as connection:
        connection.execute("SET search_path = recordari, public; SET session_replication_role = replica")
        for size in (0, *(size for size in sizes if len(fill) >= size + len(checks))):
            tenant = uuid4()
            if size:
                connection.execute("INSERT INTO protected_sources VALUES (%s, %s)", [tenant, tenant])
                connection.cursor().executemany(
                    "INSERT INTO protected_texts (tenant_id, item_id, source_id, content) VALUES (%s, %s, %s, %s)",
                    [(tenant, uuid4(), tenant, text) for text in fill[:size]],
                )
            connection.execute(f"SET app.tenant_id = '{tenant}'")
            figures[str(size)] = _processor(connection, tenant, checks)
            print(f"a check of 300 characters, {size:6} protected texts: {figures[str(size)]:.3f} ms of processor time")
        found = connection.execute("SELECT pg_relation_size('protected_texts_by_fingerprint') / 1e6").fetchone()
        assert found is not None
        print(f"the index has {found[0]:.0f} MB")
    return figures


def _processor(connection: psycopg.Connection[Any], tenant: UUID, checks: Sequence[str]) -> float:
    stat = Path(f"/proc/{connection.info.backend_pid}/stat")
    before = _ticks(stat)
    for text in checks:
        connection.execute("SELECT copies_protected(%s, NULL, %s)", [tenant, text])
    return (_ticks(stat) - before) / TICKS * 1000 / len(checks)


def _ticks(stat: Path) -> int:
    values = stat.read_text().rpartition(")")[2].split()
    return int(values[11]) + int(values[12])


def _show(what: str, count: int, total: int) -> None:
    print(f"{what:85} {count:5} of {total:5} ({count / total if total else 0:.1%})", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
