"""Forty days later: the messages of LongMemEval that recall still finds, and what a context shows unasked.

    python bench/forty_days.py --data ../shared/data [--stores 2] [--every 1] [--days 40] [--facts]

Each haystack is one user's, every session apart; all users are of one tenant. All of it is kept, embedded and left alone; then
decay runs on a clock that is so many days ahead. From a new session each message is asked for by its own first words (120
characters; where many begin alike, 300 or 1,000), and has to be among twenty answers, itself (with personal data masked) or
as a text that says the same. The context of the haystack's question is asked before that. With `--facts` facts are extracted
meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, Scope, tenant_id_of
from recordari.core.items import NewItem, normalised
from recordari.db import outbox
from recordari.errors import DatabaseUnavailable, Overloaded
from recordari.evaluation.rules.formats import Haystack
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources

T = TypeVar("T")
ASKED = (120, 300, 1000)  # first characters of a message; the longer where the shorter did not find it
ANSWERS = 20
AT_ONCE = 3
ROUNDS = 10


TENANT = "forty days"


async def keep(resources: Resources, stores: Sequence[Haystack], *, facts: bool) -> Memory:
    """One tenant that has every turn of every store, each store of a user of its own, embedded."""
    await tenants.ensure_tenant(resources, TENANT)
    memory = Memory(resources, Identity(tenant_id=tenant_id_of(TENANT), role=Role.ADMIN))
    if not facts:
        await memory.update_tenant(settings={"extraction": "off"})
    for store in stores:
        await patient(partial(_imported, memory.acting_as(user=store.name), store))
    while EMBED_TOPIC in await patient(partial(_waiting, resources, memory.identity)):
        await asyncio.sleep(0.5)
    return memory


async def _waiting(resources: Resources, identity: Identity) -> Collection[str]:
    """The topics of the work that waits."""
    async with resources.database.transaction(identity) as tx:
        return (await outbox.count_by_topic(tx))[0]


async def _imported(memory: Memory, store: Haystack) -> None:
    async for _ in memory.import_items([replace(turn, scope=Scope.SESSION) for turn in store.turns]):
        pass


async def patient(verb: Callable[[], Awaitable[T]]) -> T:
    """Ask again where the machine has so much else to do that the database does not answer in time."""
    while True:
        try:
            return await verb()
        except (DatabaseUnavailable, Overloaded):
            await asyncio.sleep(1)


async def shown_unasked(memory: Memory, store: Haystack) -> int:
    """How many items of long ago the context of the store's question shows."""
    new = memory.acting_as(user=store.name, session="forty days later")
    context = await patient(lambda: new.get_context(store.questions[0].text))
    return sum(len(section.items) for section in context.sections if section.name == "long_term")


async def measured(memory: Memory, store: Haystack, asked: Sequence[NewItem]) -> tuple[int, int]:
    """How many messages of a store were found, and for how many the answer had archived ones."""
    new = memory.acting_as(user=store.name, session="forty days later")
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(turn: NewItem) -> tuple[bool, bool]:
        async with gate:
            return await found(new, turn)

    answers = await asyncio.gather(*map(one, asked))
    for turn, (right, _) in zip(asked, answers, strict=True):
        if not right:
            print(f"missed: {turn.source_ref}: {turn.content[:60]!r}", flush=True)
    return sum(right for right, _ in answers), sum(archived for _, archived in answers)


async def found(memory: Memory, turn: NewItem) -> tuple[bool, bool]:
    """Whether recall finds a message by its first words, and whether its answer has archived items."""
    archived = False
    for length in ASKED:
        answer = await patient(partial(memory.recall, turn.content[:length], top_k=ANSWERS))
        archived = archived or any(item.archived for item in answer.items)
        if any(
            item.source_ref == turn.source_ref or normalised(item.content) == normalised(turn.content)
            for item in answer.items
        ):
            return True, archived
    return False, archived


async def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    console = Console(width=160)
    if not (arguments.data / "longmemeval").exists():
        console.print(f"not measured: {arguments.data / 'longmemeval'} is not there")
        return
    stores = haystacks("longmemeval", arguments.data)[: arguments.stores]
    table = Table("store", "messages", "asked for", "found", "answers with archived", "unasked")
    with TemporaryDirectory(prefix="recordari-forty-", dir="/var/tmp") as home:
        Path(home).chmod(0o755)  # the account that runs PostgreSQL enters it
        settings = Settings(home=Path(home), embedding_profile=arguments.profile)
        async with open_resources(settings) as resources, background_worker(resources):
            started = time.perf_counter()
            memory = await keep(resources, stores, facts=arguments.facts)
            console.print(f"{sum(len(store.turns) for store in stores)} messages kept in {_minutes(started)}")
            later = replace(resources, clock=lambda: datetime.now(UTC) + timedelta(days=arguments.days))
            memory = Memory(later, memory.identity)
            console.print(f"{(await memory.decay()).archived} archived after {_minutes(started)}")
            unasked = {store.name: await shown_unasked(memory, store) for store in stores}
            counts = {store.name: [0, 0, 0] for store in stores}
            for first in range(ROUNDS):  # a part of every store, then the next part
                for store in stores:
                    asked = store.turns[:: arguments.every][first::ROUNDS]
                    row = (len(asked), *await measured(memory, store, asked))
                    counts[store.name] = [one + other for one, other in zip(counts[store.name], row, strict=True)]
                totals = [sum(each) for each in zip(*counts.values(), strict=True)]
                console.print(f"so far {totals[1]} of {totals[0]} messages found; {_minutes(started)}")
    for store in stores:
        table.add_row(store.name, str(len(store.turns)), *map(str, counts[store.name]), str(unasked[store.name]))
    table.add_section()
    table.add_row("all", str(sum(len(store.turns) for store in stores)), *map(str, totals), str(sum(unasked.values())))
    console.print(table)


def _minutes(started: float) -> str:
    return f"{(time.perf_counter() - started) / 60:.1f} minutes"


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--profile", choices=["best", "fast"], default="fast")
    parser.add_argument("--stores", type=int, default=2, help="how many haystacks, from the first")
    parser.add_argument("--every", type=int, default=1, help="ask for every so many-th message")
    parser.add_argument("--days", type=int, default=40)
    parser.add_argument("--facts", action="store_true", help="extract facts from the messages, which takes longer")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
