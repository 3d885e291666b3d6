"""Recordari beside other memory systems in the shape of many users: one store, thousands of users, a few items each.

    python bench/peers_crowd.py [--users 10000] [--items 100] [--questions 200] [--only langgraph] [--http] [--profile fast]
        [--kept FOLDER] [--index-later]

Recordari keeps all users in one tenant, LangGraph in namespaces of one store, mem0 by `user_id`; vectors, PostgreSQL and
taking turns are those of `bench/peers.py`. Every question asks a user for one item of theirs by its words and its number.
Printed for each: items stored a second, p50 and p95 of an add and of a search (the first ones right after the import,
before anything was analysed, and later), answers a second of 8 clients, how many of ten hits an answer has, and how often
the item is among them. `--http` adds those that have a server on PyPI, each over its own HTTP server; what is left out is
printed with its reason. With `--kept` the stores stay in that folder: a later run with the same users and items stores
nothing and measures again; how fast they were stored, and the first searches, are from the run that did. `--index-later`
spares LangGraph its vector index during the import and makes it at the end, which its API does not offer: a million items
take it hours else.
Writes `bench/results/peers_crowd.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from peers import BENCH, CHUNK, CLIENTS, PEERS, RESULTS, Peer, Process, install, tidy, turns_of, workshop, write_vectors
from recordari.config import Settings
from recordari.db.address import embedded_server
from recordari.memory.rules import embedded_text
from serving import DEEDS, LINKS, NAMES, PLACES, THINGS

ADDS = 100
HITS = 10
OVER_HTTP = (
    Peer("recordari_http", "Recordari, HTTP"),
    Peer(
        "hindsight_http",
        "Hindsight, HTTP",
        ("hindsight-api-slim", "psycopg[binary]"),
        BENCH.parent / ".venv-hindsight",  # a gigabyte, with versions that others do not take
    ),
)
LEFT_OUT = (
    "mem0 over HTTP: its server is not on PyPI (no mem0-server, no mem0-api-server); it comes as an image.",
    "LangGraph over HTTP: langgraph-api is on PyPI only with a store in memory; the one on PostgreSQL is not.",
)
BEGUN = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(slots=True)
class Figures:
    """What was measured of one contestant; times in milliseconds."""

    ingest: float = 0.0
    adds: list[float] = field(default_factory=list)
    early: list[float] = field(default_factory=list)
    searches: list[float] = field(default_factory=list)
    served: float = 0.0
    hits: list[int] = field(default_factory=list)
    found: list[bool] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        def quantile(values: list[float], part: float) -> float:
            return float(np.quantile(values, part))

        return {
            "items_per_second": self.ingest,
            "add_p50_ms": quantile(self.adds, 0.5),
            "add_p95_ms": quantile(self.adds, 0.95),
            "first_search_p50_ms": quantile(self.early, 0.5),
            "first_search_p95_ms": quantile(self.early, 0.95),
            "search_p50_ms": quantile(self.searches, 0.5),
            "search_p95_ms": quantile(self.searches, 0.95),
            "served_per_second": self.served,
            "hits_of_10": statistics.mean(self.hits),
            "asked_item_found": statistics.mean(self.found),
        }


Asked = tuple[str, str, str]
"""A user, a question, and the reference of the item that it asks for."""


def write_crowd(folder: Path, users: int, items: int, questions: int) -> tuple[list[str], list[Asked]]:
    """Write the items of all users; returns their passages and the questions."""
    chance = random.Random(users * items)
    conversations: list[dict[str, Any]] = []
    asked: list[Asked] = []
    asking = set(chance.sample(range(users), min(users, questions)))
    for user in range(users):
        turns = []
        for number in range(items):
            one = chance.choice
            name, deed, thing, place, other = one(NAMES), one(DEEDS), one(THINGS), one(PLACES), chance.randrange(9_000)
            content = f"{name} {deed} the {thing} in {place} {one(LINKS)} {one(NAMES)} had asked, number {other}."
            at = BEGUN + timedelta(minutes=user + 10 * number)
            passage = embedded_text(content, speaker="user", event_time=at)
            ref = f"{user}-{number}"
            turn = {"ref": ref, "session": "", "speaker": "user", "content": content, "at": at.isoformat()}
            turns.append(turn | {"passage": passage})
            if user in asking and number == user % items:
                asked.append((f"user-{user}", f"Who {deed} the {thing} in {place}? It was number {other}.", ref))
        conversations.append({"name": f"user-{user}", "turns": turns, "questions": []})
    (folder / "conversations.json").write_text(json.dumps(conversations))
    chance.shuffle(asked)
    passages = [turn["passage"] for one in conversations for turn in one["turns"]]
    return list(dict.fromkeys(passages)), asked


def search(process: Process, figures: Figures, asked: list[Asked], times: list[float]) -> None:
    """Ask one contestant; how long each answer took goes to `times`."""
    answer = process.order("search", space="main", asked=[(user, question) for user, question, _ in asked])
    times.extend(answer["times"])
    for (_, _, ref), found in zip(asked, answer["found"], strict=True):
        figures.hits.append(len(found))
        figures.found.append(ref in found)


def store(processes: list[Process], users: int, asked: list[Asked], known: Path) -> dict[str, Figures]:
    """Let every contestant store all items and ask it at once, unless it did so before."""
    before: dict[str, Any] = json.loads(known.read_text()) if known.exists() else {}
    every = {name: Figures(**figures) for name, figures in before.items()}
    for process in processes:
        process.order("open", space="main")
        if process.peer.name not in every:
            done = process.order("ingest", space="main", conversations=list(range(users)))
            figures = every[process.peer.name] = Figures(ingest=done["turns"] / done["seconds"])
            search(process, figures, asked, figures.early)
            known.write_text(json.dumps({name: asdict(one) for name, one in every.items()}))
    return {process.peer.name: every[process.peer.name] for process in processes}


def measure(processes: list[Process], every: dict[str, Figures], users: int, items: int, asked: list[Asked]) -> None:
    """Searches and adds, a few of each contestant in turn, then many clients at once."""
    for start in range(0, len(asked), CHUNK):
        for process in turns_of(processes, start // CHUNK):
            figures = every[process.peer.name]
            search(process, figures, asked[start : start + CHUNK], figures.searches)
    chance = random.Random(users)
    for start in range(0, ADDS, CHUNK):
        added = [(chance.randrange(users), chance.randrange(items)) for _ in range(CHUNK)]
        for process in turns_of(processes, start // CHUNK):
            every[process.peer.name].adds += process.order("add_to", space="main", added=added)["times"]
    pairs = [(user, question) for user, question, _ in asked]
    for process in processes:
        process.order("serve", space="main", asked=pairs[:CLIENTS], clients=CLIENTS)
        done = process.order("serve", space="main", asked=pairs, clients=CLIENTS)
        every[process.peer.name].served = len(pairs) / done["seconds"]


def table(title: str, processes: list[Process], figures: dict[str, Figures]) -> Table:
    drawn = Table(title=title)
    for column in ("", "stored/s", "add p50 / p95", "first searches", "search p50 / p95", f"{CLIENTS} clients/s", "hits",
                   "found"):  # fmt: skip
        drawn.add_column(column, justify="right" if column else "left")
    for process in processes:
        one = figures[process.peer.name].summary()
        drawn.add_row(
            process.peer.title,
            f"{one['items_per_second']:,.0f}",
            f"{one['add_p50_ms']:.1f} / {one['add_p95_ms']:.1f}",
            f"{one['first_search_p50_ms']:.1f} / {one['first_search_p95_ms']:.1f}",
            f"{one['search_p50_ms']:.1f} / {one['search_p95_ms']:.1f}",
            f"{one['served_per_second']:,.0f}",
            f"{one['hits_of_10']:.1f}",
            f"{one['asked_item_found']:.2f}",
        )
    return drawn


def run(arguments: argparse.Namespace) -> None:
    """Measure every contestant, print the table and write it down."""
    console = Console(width=130)
    chosen = [one for one in PEERS if one.name == "recordari" or one.name in (arguments.only or {"langgraph", "mem0"})]
    chosen += OVER_HTTP if arguments.http else ()
    peers = [one for one in chosen if install(one, console)]
    with ExitStack() as stack:
        folder = arguments.kept or stack.enter_context(workshop(arguments.home))
        folder.mkdir(mode=0o755, exist_ok=True)
        settings = Settings(home=folder, embedding_profile=arguments.profile)
        passages, asked = write_crowd(folder, arguments.users, arguments.items, arguments.questions)
        texts = list(dict.fromkeys(question for _, question, _ in asked))
        model = asyncio.run(write_vectors(folder, folder, settings, passages, texts))
        server = embedded_server(settings)
        server.acquire()
        stack.callback(server.release)
        environment = {"PEERS_HOME": str(folder), "PEERS_PROFILE": arguments.profile, "PEERS_CROWD": "1"}
        stored = folder / f"stored-{arguments.users}-{arguments.items}.json"
        if arguments.index_later and not stored.exists():
            environment["PEERS_INDEX_LATER"] = "1"
        processes: list[Process] = []
        for peer in peers:
            processes.append(Process(peer, folder, server.dsn(), environment))
            stack.callback(processes[-1].close)
        early = asked[: len(asked) // 4]
        figures = store(processes, arguments.users, early, stored)
        tidy(server.dsn())
        measure(processes, figures, arguments.users, arguments.items, asked[len(early) :])
        title = f"{arguments.users:,} users × {arguments.items} items, {model}; times in ms"
        console.print(table(title, processes, figures))
        for reason in LEFT_OUT:
            console.print(reason)
        report = {
            "model": model,
            "users": arguments.users,
            "items": arguments.items,
            "load": os.getloadavg()[0],
            "contestants": {name: one.summary() for name, one in figures.items()},
            "left_out": LEFT_OUT,
        }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "peers_crowd.json").write_text(json.dumps(report, indent=1))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-peers"))
    parser.add_argument("--kept", type=Path, help="a folder for the stores, which are used again")
    parser.add_argument("--index-later", action="store_true", help="LangGraph's vector index is made after its import")
    parser.add_argument("--profile", choices=["best", "fast"], default="fast")
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=["langgraph", "mem0"], help="these peers beside Recordari")
    parser.add_argument("--http", action="store_true", help="also those with a server on PyPI, each over HTTP")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
