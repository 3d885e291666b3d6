"""A whole turn over REST: what a chat costs the server, the worker and PostgreSQL, each apart.

    python bench/turn.py [--users 300] [--speakers 200] [--turns 300] [--clients 1,8] [--profile fast] [--home FOLDER]

Server, worker and PostgreSQL are processes of their own; the client keeps its connection. One tenant has many users with 50 to
150 messages each; all but twenty are copies of others, made by SQL (`--long` gives each 50 to 500). A turn is
`POST /v1/context` with a new question, then two messages stored. CPU comes from /proc, with everything derived from the
messages: the clock runs until no work is left. It is the figure to trust on a shared machine; the unit is what a fixed
piece of work takes at the same time. Statements per verb are counted in a process of the benchmark. `--source` measures
another checkout with the same client. Prints tables, writes `bench/results/turn.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from crowd import prepared
from serving import RESULTS, ROOT, Client, Processes, Times, World, folder, running, turn, unit_of_work, wait_until_idle

ORIGINALS = 20


def overhead(processes: Processes, path: str, batches: int = 12, size: int = 100) -> dict[str, float]:
    """Latency, and the CPU of the server, of a route that does next to nothing; the quietest batch counts."""
    client, times, cpu = Client(processes), Times(), []
    for _ in range(50):
        client.ask("GET", path)
    for _ in range(batches):
        before = processes.cpu()["server"]
        for _ in range(size):
            times.run(path, lambda: client.ask("GET", path))
        cpu.append((processes.cpu()["server"] - before) / size * 1000)
    return {"p50": times.milliseconds(path, 0.5), "p95": times.milliseconds(path, 0.95), "cpu": min(cpu)}


def measure_turns(processes: Processes, users: int, turns: int, clients: int) -> dict[str, Any]:
    """Turns of so many clients at once, and the CPU that they and all that follows from them cost."""
    warm_up, world = Client(processes), World(time.time_ns())
    for user in range(users):  # a session speaks more than once, and a server answers for longer than a minute
        turn(warm_up, world, users, Times(), user)
    wait_until_idle(processes)
    times, before, start = Times(), processes.cpu(), time.perf_counter()

    units: list[float] = []

    def work(number: int) -> None:
        client, world = Client(processes), World(1000 + number + time.time_ns())
        for done in range(turns // clients):
            turn(client, world, users, times)
            if number == 0 and done % 5 == 0 and clients == 1:  # in several threads it would count the others too
                units.append(unit_of_work())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed, served = time.perf_counter() - start, processes.cpu()["server"]
    wait_until_idle(processes)
    after, done = processes.cpu(), turns // clients * clients
    cpu = {name: (after[name] - before[name]) / done * 1000 for name in after} | {
        "server": (served - before["server"]) / done * 1000
    }
    verbs = {
        name: {"p50": times.milliseconds(name, 0.5), "p95": times.milliseconds(name, 0.95)} for name in times.seconds
    }
    unit = statistics.median(units) if units else None
    return {
        "clients": clients,
        "turns_a_second": done / passed,
        "unit": unit,
        "cpu": cpu | {"all": sum(cpu.values())},
        **verbs,
    }


# Statements ---------------------------------------------------------------------------------------------------------


async def count_statements(home: Path, profile: Any) -> dict[str, Any]:
    """Statements and round trips of each verb, in this process; the median of several calls, after some to warm up."""
    sys.path.insert(0, str(ROOT))
    from tests.statements import counted

    from recordari.app import Memory
    from recordari.config import Settings
    from recordari.core.identity import Identity, Role, tenant_id_of
    from recordari.sessions.rules.window import NewMessage
    from recordari.wiring import open_resources

    world, found = World(5), {}
    async with open_resources(Settings(home=home, embedding_profile=profile)) as resources:
        everyone = Memory(resources, Identity(tenant_id=tenant_id_of("bench"), role=Role.AGENT))
        memories = [everyone.acting_as(user=f"user-{user}", session=f"now-{user}") for user in range(20)]

        def two() -> list[NewMessage]:
            return [NewMessage(content=world.said()), NewMessage(content=world.said(), role="assistant")]  # type: ignore[arg-type]

        verbs: dict[str, Callable[[Memory], Any]] = {
            "context": lambda memory: memory.get_context(world.asked()),
            "recall": lambda memory: memory.recall(world.asked()),
            "messages": lambda memory: memory.add_messages(two()),
            "remember": lambda memory: memory.remember(world.said(), scope="user"),
        }
        for name, verb in verbs.items():
            many = []
            for number, memory in enumerate(memories):
                await verb(memory)  # a session speaks more than once
                with counted() as sent:
                    await verb(memory)
                if number >= 5:
                    many.append(sent)
            usual = sorted(many, key=lambda sent: sent.total)[len(many) // 2]
            found[name] = {
                "statements": usual.total,
                "round_trips": int(statistics.median(sent.round_trips for sent in many)),
                "sent": dict(usual.statements),
            }
    return found


# Tables -------------------------------------------------------------------------------------------------------------


def show(found: dict[str, Any]) -> None:
    console = Console(width=130)
    routes = Table("route", "p50 ms", "p95 ms", "server CPU ms", title="overhead of a request")
    for path, one in found["overhead"].items():
        routes.add_row(path, f"{one['p50']:.2f}", f"{one['p95']:.2f}", f"{one['cpu']:.2f}")
    console.print(routes)
    turns = Table(
        "clients", "turns/s", "context p50/p95", "messages p50/p95", "server", "worker", "PostgreSQL", "all", "unit"
    )
    turns.title = f"a turn: {found['users']} users, {found['items']} items, {found['profile']}; CPU in ms"
    for one in found["turns"]:
        cpu = [f"{one['cpu'][name]:.1f}" for name in ("server", "worker", "postgres", "all")]
        spread = [f"{one[name]['p50']:.1f} / {one[name]['p95']:.1f}" for name in ("context", "messages")]
        unit = f"{one['unit']:.1f}" if one["unit"] else ""
        turns.add_row(str(one["clients"]), f"{one['turns_a_second']:.1f}", *spread, *cpu, unit)
    console.print(turns)
    verbs = Table("verb", "statements", "round trips", "which", title="statements per verb")
    for name, one in found.get("statements", {}).items():
        which = ", ".join(f"{statement} ×{many}" if many > 1 else statement for statement, many in one["sent"].items())
        verbs.add_row(name, str(one["statements"]), str(one["round_trips"]), which)
    console.print(verbs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--speakers", type=int, default=200, help="users who speak, one more time than they did before")
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--clients", default="1,8", help="numbers of clients at once, each measured")
    parser.add_argument("--profile", choices=("fast", "best"), default="fast")
    parser.add_argument("--home", type=Path, help="a folder that is kept, and used again when it is full")
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout whose server is measured")
    parser.add_argument("--long", action="store_true", help="users with 50 to 500 messages")
    parser.add_argument("--serve", default="", help="further options of `recordari serve`")
    asked = parser.parse_args()
    found: dict[str, Any] = {"users": asked.users, "profile": asked.profile, "turns": []}
    with folder(asked.home, "recordari-turn-") as home:
        with running(home, asked.source, asked.profile, asked.serve.split()) as processes:
            most, originals = 500 if asked.long else 150, min(ORIGINALS, asked.users)
            found["items"] = prepared(processes, home, users=asked.users, originals=originals, least=50, most=most)
            found["overhead"] = {path: overhead(processes, path) for path in ("/healthz", "/v1/whoami")}
            speakers = min(asked.speakers, asked.users)
            for clients in map(int, asked.clients.split(",")):
                found["turns"].append(measure_turns(processes, speakers, asked.turns, clients))
        if asked.source == ROOT:
            found["statements"] = asyncio.run(count_statements(home, asked.profile))
    show(found)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "turn.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
