"""Forty days later: the messages of LongMemEval that recall still finds, and what a context shows unasked.

    python bench/forty_days.py --data ../shared/data [--stores 2] [--every 1] [--days 40]

Each haystack is one user's, every session apart. All of it is kept, embedded and left alone; then decay runs on a clock that
is so many days ahead. From a new session each message is asked for by its own first words, and has to be among twenty
answers, itself (with personal data masked) or as a text that says the same. The context of the haystack's question is asked
before that.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, Scope, tenant_id_of
from recordari.core.items import normalised
from recordari.db import outbox
from recordari.evaluation.rules.formats import Haystack
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources

ASKED = 300  # first characters of a message
ANSWERS = 20


async def keep(resources: Resources, store: Haystack) -> Memory:
    """The memory of a store's user, with every turn in its session, embedded."""
    await tenants.ensure_tenant(resources, store.name)
    memory = Memory(resources, Identity(tenant_id=tenant_id_of(store.name), role=Role.ADMIN)).acting_as(user="person")
    async for _ in memory.import_items([replace(turn, scope=Scope.SESSION) for turn in store.turns]):
        pass
    while True:
        async with resources.database.transaction(memory.identity) as tx:
            waiting, _ = await outbox.count_by_topic(tx)
        if EMBED_TOPIC not in waiting:
            return memory
        await asyncio.sleep(0.2)


async def measured(memory: Memory, store: Haystack, days: int, every: int) -> Sequence[str]:
    """The row of a store: how much was archived, found and shown."""
    later = replace(memory.resources, clock=lambda: datetime.now(UTC) + timedelta(days=days))
    archived = (await Memory(later, replace(memory.identity, user_id=None)).decay()).archived
    new = Memory(later, memory.identity).acting_as(session="forty days later")
    context = await new.get_context(store.questions[0].text)
    unasked = sum(len(section.items) for section in context.sections if section.name == "long_term")
    started, found, marked, missed = time.perf_counter(), 0, 0, []
    asked = store.turns[::every]
    for turn in asked:
        answer = await new.recall(turn.content[:ASKED], top_k=ANSWERS)
        right = [
            item
            for item in answer.items
            if item.source_ref == turn.source_ref or normalised(item.content) == normalised(turn.content)
        ]
        found += bool(right)
        marked += any(item.archived for item in answer.items)
        if not right:
            missed.append(turn.content[:60])
    seconds = (time.perf_counter() - started) / max(len(asked), 1)
    for text in missed:
        print("missed:", text.replace("\n", " "))
    figures = (len(store.turns), archived, len(asked), found, marked, unasked, f"{seconds * 1000:.0f} ms")
    return [store.name, *map(str, figures)]


async def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    console = Console(width=160)
    if not (arguments.data / "longmemeval").exists():
        console.print(f"not measured: {arguments.data / 'longmemeval'} is not there")
        return
    table = Table("store", "messages", "archived", "asked for", "found", "answers with archived", "unasked", "a recall")
    with TemporaryDirectory(prefix="recordari-forty-", dir="/var/tmp") as home:
        Path(home).chmod(0o755)  # the account that runs PostgreSQL enters it
        settings = Settings(home=Path(home), embedding_profile=arguments.profile)
        async with open_resources(settings) as resources, background_worker(resources):
            asked = found = 0
            for number, store in enumerate(haystacks("longmemeval", arguments.data)[: arguments.stores], start=1):
                memory = await keep(resources, store)
                row = await measured(memory, store, arguments.days, arguments.every)
                table.add_row(*row)
                asked, found = asked + int(row[3]), found + int(row[4])
                console.print(f"{number}: {row[-1]} a recall; so far {found} of {asked} messages are found")
    console.print(table)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--profile", choices=["best", "fast"], default="fast")
    parser.add_argument("--stores", type=int, default=2, help="how many haystacks, from the first")
    parser.add_argument("--every", type=int, default=1, help="ask for every so many-th message")
    parser.add_argument("--days", type=int, default=40)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
