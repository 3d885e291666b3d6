"""What a turn costs as its tenant grows: the same kind of user among 1,000 to 1,000,000 items of others.

    python bench/growth.py [--sizes 1000,10000,100000,1000000] [--turns 100] [--profile fast] [--home FOLDER]

At each size other users speak who have the same past, 50 messages, so that their own memory does not grow between the sizes.
The tenant grows by copies of users, made by SQL. CPU is that of server, worker and PostgreSQL, with all that is derived. The
unit is what a fixed piece of work takes at the same time, and the ratio is that of turns in units: the machine may be shared.
Prints a table, and the disk that an item takes with its vector and indexes; writes `bench/results/growth.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crowd import copy_users, disk, fill_users
from serving import RESULTS, ROOT, Client, Processes, Times, World, folder, running, turn, unit_of_work, wait_until_idle

PAST = 50  # messages of a user
ORIGINALS = 20
SPEAKERS = 5  # at each size


def measure(processes: Processes, users: range, turns: int) -> dict[str, Any]:
    """The turns of these users, one after the other, after two of each that open sessions and warm caches."""
    client, world, times = Client(processes), World(users.start), Times()
    for user in [*users, *users]:
        turn(client, world, 0, Times(), user)
    wait_until_idle(processes)
    before, units = processes.cpu(), []
    for number in range(turns):
        turn(client, world, 0, times, users[number % len(users)])
        if number % 5 == 0:
            units.append(unit_of_work())
    wait_until_idle(processes)
    after = processes.cpu()
    cpu = {name: (after[name] - before[name]) / turns * 1000 for name in after}
    spread = {f"{name}_p{share}": times.milliseconds(name, share / 100) for name in times.seconds for share in (50, 95)}
    return {**cpu, "all": sum(cpu.values()), "unit": statistics.median(units), **spread}


def show(found: dict[str, Any]) -> None:
    console = Console(width=130)
    table = Table("items", "server", "worker", "PostgreSQL", "a turn", "unit", "ratio")
    for name in ("context", "messages"):
        table.add_column(f"{name} p50/p95")
    table.title = f"CPU of a turn in milliseconds, {found['profile']}, a user with {PAST} messages"
    first = found["sizes"][0]["all"] / found["sizes"][0]["unit"]
    for one in found["sizes"]:
        table.add_row(
            f"{one['items']:,}",
            *(f"{one[name]:.1f}" for name in ("server", "worker", "postgres", "all")),
            f"{one['unit']:.1f}",
            f"{one['all'] / one['unit'] / first:.2f}",
            *(f"{one[f'{name}_p50']:.0f} / {one[f'{name}_p95']:.0f}" for name in ("context", "messages")),
        )
    console.print(table)
    items, by_table = found["disk"]
    sizes = Table("table or index", "bytes of an item", title=f"disk with {items:,} items")
    for name, size in by_table.items():
        if size / items >= 10:
            sizes.add_row(name, f"{size / items:,.0f}")
    console.print(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--profile", choices=("fast", "best"), default="fast")
    parser.add_argument("--home", type=Path, help="a folder that is kept")
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout whose server is measured")
    asked = parser.parse_args()
    found: dict[str, Any] = {"profile": asked.profile, "sizes": []}
    with folder(asked.home, "recordari-growth-") as home, running(home, asked.source, asked.profile, []) as processes:
        fill_users(processes, range(ORIGINALS), PAST, PAST)
        items, users = copy_users(home, ORIGINALS, range(0)), ORIGINALS
        for number, size in enumerate(map(int, asked.sizes.split(","))):
            wanted = users + max(0, size - items) * users // items
            if wanted > users:
                items, users = copy_users(home, ORIGINALS, range(users, wanted)), wanted
            figures = measure(processes, range(number * SPEAKERS, (number + 1) * SPEAKERS), asked.turns)
            found["sizes"].append({"items": items, **figures})
            print(f"{items:,} items: {figures['all']:.1f} ms")
        found["disk"] = disk(home)
    show(found)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "growth.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
