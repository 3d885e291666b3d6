"""One server beside a cluster divided by tenant: an add and a recall of small tenants, in turn, in this process.

    python bench/cluster.py --single OWNER_URL --cluster OWNER_URL [--tenants 20] [--rounds 100]

Both databases are ready (`recordari db init`, and on the cluster `recordari db distribute`); it leaves tenants named `bench-…`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.db.address import APP_LOGIN
from recordari.tenants import tenants
from recordari.wiring import open_resources

PLACES = ("Kendwa", "Paje", "Nungwi", "Jambiani", "Matemwe", "Bwejuu")
THINGS = ("ferry", "bus", "market", "lesson", "dinner", "walk")


def sentence(chosen: random.Random, number: int) -> str:
    return f"The {chosen.choice(THINGS)} number {number} to {chosen.choice(PLACES)} leaves at {chosen.randrange(24)}."


async def opened(stack: AsyncExitStack, owner_url: str, home: Path, names: list[str]) -> list[Memory]:
    settings = Settings(
        home=home,
        database_url=SecretStr(make_conninfo(owner_url, user=APP_LOGIN)),
        database_owner_url=SecretStr(owner_url),
        embedding_profile="fast",
        auto_migrate=False,
    )
    resources = await stack.enter_async_context(open_resources(settings))
    found = [await tenants.ensure_tenant(resources, name) for name in names]
    return [
        Memory(resources, Identity(tenant_id=one.tenant_id, role=Role.ADMIN)).acting_as(user="ana") for one in found
    ]


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await call()
    return (time.perf_counter() - start) * 1000


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    names = [f"bench-{number}" for number in range(given.tenants)]
    taken: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        async with AsyncExitStack() as stack:
            sides = {
                "one server": await opened(stack, given.single, Path(home), names),
                "cluster": await opened(stack, given.cluster, Path(home), names),
            }
            chosen = random.Random(7)
            for number in range(-given.tenants, given.rounds):
                place, text = chosen.randrange(given.tenants), sentence(chosen, number)
                for side, memories in sides.items():
                    memory = memories[number % given.tenants if number < 0 else place]
                    took = {
                        "add": await timed(partial(memory.remember, text, kind="episode")),
                        "recall": await timed(partial(memory.recall, "When does the ferry to Paje leave?")),
                    }
                    if number >= 0:  # before that, each tenant is met once
                        for what, milliseconds in took.items():
                            taken.setdefault((what, side), []).append(milliseconds)
    for what in ("add", "recall"):
        single, cluster = (statistics.median(taken[what, side]) for side in ("one server", "cluster"))
        print(
            f"{what}: p50 {single:.1f} ms on one server, {cluster:.1f} ms on the cluster, ratio {cluster / single:.2f}"
        )


if __name__ == "__main__":
    asyncio.run(main())
