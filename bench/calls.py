"""What single calls cost in process: CPU of this process and of PostgreSQL, in milliseconds of a call.

    python bench/calls.py --data ../shared/data [--users 300] [--items 80] [--home FOLDER]

Three sorts of calls, one after another: questions to two LoCoMo memories that are at hand, the first question of users in one
tenant, and single adds. CPU says more than a time where others use the machine too; compare only what ran side by side.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from recall import haystacks
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, Scope, tenant_id_of
from recordari.core.items import Kind, NewItem
from recordari.evaluation.rules.formats import Haystack
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources
from serving import DEEDS, LINKS, NAMES, PLACES, THINGS

BEGUN = datetime(2026, 1, 5, tzinfo=UTC)
QUESTIONS, ADDS = 150, 200
Asked = list[tuple[Memory, str]]


def server_cpu(home: Path) -> float:
    """Seconds on a processor of all processes of the embedded server."""
    (pid_file,) = home.rglob("postmaster.pid")
    server = pid_file.read_text().split()[0]
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = (process / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if server in (parent, process.name):
                total += int((process / "schedstat").read_text().split()[0])
        except OSError:
            continue  # it ended
    return total / 1e9


async def measured(name: str, home: Path, calls: int, work: Awaitable[None]) -> None:
    """Print the CPU of a call."""
    theirs, ours = server_cpu(home), time.process_time()
    await work
    ours, theirs = time.process_time() - ours, server_cpu(home) - theirs
    print(f"{name:26} process {ours * 1000 / calls:6.2f} ms   PostgreSQL {theirs * 1000 / calls:6.2f} ms")


async def tenant_of(resources: Resources, name: str) -> Memory:
    await tenants.ensure_tenant(resources, name)
    memory = Memory(resources, Identity(tenant_id=tenant_id_of(name), role=Role.ADMIN))
    await memory.update_tenant(settings={"extraction": "off"})
    return memory


async def keep(memory: Memory, items: list[NewItem]) -> None:
    """Import items; those that came before the model was loaded are embedded by a worker."""
    async for _ in memory.import_items(items):
        pass
    while (await memory.job_counts()).outbox_pending.get(EMBED_TOPIC):
        await asyncio.sleep(0.05)


def turns_of(store: Haystack) -> list[NewItem]:
    return [
        NewItem(content=turn.content, scope=Scope.USER, speaker=turn.speaker, session_id=turn.session_id or None,
                source_ref=turn.source_ref, event_time=turn.event_time)
        for turn in store.turns
    ]  # fmt: skip


async def make_crowd(crowd: Memory, users: int, items: int) -> Asked:
    """Users with some items each, and a question to each of them."""
    chance, asked = random.Random(5), list[tuple[Memory, str]]()
    for user in range(users):
        memory, news = crowd.acting_as(user=f"user-{user}"), list[NewItem]()
        for number in range(items):
            name, deed, thing, place = (chance.choice(words) for words in (NAMES, DEEDS, THINGS, PLACES))
            other = chance.randrange(9_000)
            why = f"{chance.choice(LINKS)} {chance.choice(NAMES)} had asked"
            content = f"{name} {deed} the {thing} in {place} {why}, number {other}."
            at = BEGUN + timedelta(minutes=user + 10 * number)
            news.append(NewItem(content=content, scope=Scope.USER, speaker="user", event_time=at))
            if number == user % items:
                asked.append((memory, f"Who {deed} the {thing} in {place}? It was number {other}."))
        await keep(memory, news)
    chance.shuffle(asked)
    return asked


async def ask(asked: Asked) -> None:
    for memory, question in asked:
        await memory.recall(question, top_k=10, source_kinds=[Kind.CHAT_MESSAGE])


async def add(memory: Memory, items: list[NewItem]) -> None:
    for item in items:
        await memory.remember(
            item.content,
            scope=Scope.USER,
            speaker=item.speaker,
            source_ref=item.source_ref,
            session_id=item.session_id,
            event_time=item.event_time,
        )


async def run(data: Path, home: Path, users: int, items: int) -> None:
    """Store everything, then measure the three sorts of calls."""
    stores = haystacks("locomo", data)[:2]
    async with open_resources(Settings(home=home, embedding_profile="fast")) as resources:
        known: Asked = []
        async with background_worker(resources):
            for store in stores:
                memory = (await tenant_of(resources, store.name)).acting_as(user="person")
                await keep(memory, turns_of(store))
                known += [(memory, one.text) for one in store.with_evidence[: QUESTIONS // 2]]
            crowd = await make_crowd(await tenant_of(resources, "crowd"), users, items)
        await ask(known + known)
        await measured("memory at hand", home, len(known), ask(known))
        half = len(crowd) // 2
        await ask(crowd[:half])
        await measured("first question of a user", home, len(crowd) - half, ask(crowd[half:]))
        added, news = (await tenant_of(resources, "added")).acting_as(user="person"), turns_of(stores[1])
        await add(added, news[: ADDS // 2])
        await measured("add", home, ADDS, add(added, news[ADDS // 2 : ADDS // 2 + ADDS]))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--items", type=int, default=80)
    parser.add_argument("--home", type=Path, help="an empty folder that is kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        asyncio.run(run(arguments.data, arguments.home or Path(folder), arguments.users, arguments.items))


if __name__ == "__main__":
    main()
