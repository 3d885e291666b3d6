"""Kill the server, the worker, the database and its backends, and step the clock, under writers that keep a journal.

    python bench/faults.py --kills 200 --seed 7

A write is protected by its `Idempotency-Key` alone: it has no reference of its own, and is sent again until it is
acknowledged. At the end every acknowledged write must exist, once. The server and the worker are started again as a
supervisor would; nobody but Recordari starts the database again. The clock of the database is stepped by up to two hours
forth and back where the library libfaketime is installed (on Debian: `apt-get install libfaketime`). Ends with 1 if a write
is lost or doubled, if work that follows a write is not done, or if the database took longer than `--healthy` seconds to be
back. The same seed draws the same faults in the same order.

    python bench/faults.py --kills 50 --healthy 0 --owner ADDRESS --node DATA_FOLDER --node DATA_FOLDER …

runs on a prepared database instead, with the owner's address, and kills its servers: that of the first folder, and for a
cluster those of its worker nodes. They run on this machine, and are started again here. Each writer has its own tenant then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psycopg
from psycopg.conninfo import make_conninfo

from recordari.config import Settings
from recordari.db.address import APP_LOGIN, DATABASE_NAME, embedded_server
from recordari.db.embedded.server import EmbeddedServer

WRITERS = 8
IN_A_SESSION = 200  # writes, of which a fifth are notes: a session keeps fifty
RETRY_SECONDS = 0.05
ABSENT_SECONDS = 0.25
"""Until a server that is not there is asked again: who asks more often takes the time that it needs to start."""
LONGEST_WAIT = 300.0
VICTIMS = ("server", "worker", "postmaster", "backend")
NODE = "node"
"""A server of the database that is not the first, and one of its backends."""
CLOCK = "clock"
STEPS = ("+2h", "-2h", "+61s", "-61s", "+0s")
FAKETIME = (
    *Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"),
    *Path("/usr/lib").glob("faketime/libfaketimeMT.so.1"),
)
DESCRIPTORS = 96
FOUND = """
    SELECT content FROM recordari.items WHERE kind = 'chat_message' AND content LIKE 'mark %%'
    UNION ALL SELECT content FROM recordari.notes WHERE content LIKE 'mark %%'
    UNION ALL SELECT input ->> 'mark' FROM recordari.runs WHERE input ? 'mark'
"""
WAITING = "SELECT topic, count(*), min(last_error) FROM recordari_queue.outbox GROUP BY topic"


@dataclass
class Journal:
    """What was sent and what was acknowledged, on the disk before anything relies on it."""

    path: Path
    acknowledged: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def note(self, event: str, marks: list[str]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "marks": marks}) + "\n")
        if event == "acknowledged":
            self.acknowledged += marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A server of PostgreSQL on this machine that nobody but this program starts."""

    data: Path

    def pid(self) -> int | None:
        try:
            return int((self.data / "postmaster.pid").read_text().split()[0])
        except (OSError, IndexError):
            return None

    def start(self) -> None:
        """Start it again by its own program; what is left of the one that was killed must be gone first."""
        (program, *_), owner = shlex.split((self.data / "postmaster.opts").read_text()), self.data.stat()
        command = [str(Path(program).with_name("pg_ctl")), "-D", str(self.data), "-w", "start"]
        with (self.data.parent / f"{self.data.name}.log").open("ab") as log:
            for _ in range(20):
                done = subprocess.run(
                    command, user=owner.st_uid, group=owner.st_gid, stdout=log, stderr=log, cwd="/", check=False
                )
                if done.returncode == 0:
                    return
                time.sleep(0.5)
        sys.exit(f"the server of {self.data} does not start")


class Installation:
    """A server and a worker on one embedded database, in a folder of their own, or on a prepared one."""

    def __init__(self, folder: Path, owner: str | None = None, nodes: Sequence[Node] = ()) -> None:
        self.folder = folder
        self.home = folder / "home"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.address = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **os.environ,
            "RECORDARI_HOME": str(self.home),
            "RECORDARI_PORT": str(self.port),
            "RECORDARI_EMBEDDING_PROFILE": "fast",
            "RECORDARI_RATE_LIMIT": "",
            "RECORDARI_LOG_LEVEL": "warning",
        }
        self.nodes = nodes
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.victims: tuple[str, ...] = (*VICTIMS, NODE) if len(nodes) > 1 else VICTIMS
        if owner is not None:
            self.environment["RECORDARI_DATABASE_URL"] = make_conninfo(owner, user=APP_LOGIN)
            self.environment["RECORDARI_DATABASE_OWNER_URL"] = owner
            self.owner = owner
            return
        if FAKETIME:
            self.victims = (*VICTIMS, CLOCK)
            self.step_clock("+0s")
            self.environment["RECORDARI_POSTGRES_BIN_DIR"] = str(self._programs())
        self.database: EmbeddedServer = embedded_server(Settings(home=self.home))
        self.owner = self.database.dsn(database=DATABASE_NAME)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "recordari", *arguments]

    def start(self, name: str, *, descriptors: int | None = None) -> None:
        arguments = ("serve", "--no-worker") if name == "server" else ("worker",)

        limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (descriptors, descriptors)) if descriptors else None
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.command(*arguments),
                env=self.environment,
                stdout=log,
                stderr=log,
                preexec_fn=limit,
            )

    def create_keys(self) -> list[str]:
        """A key for each writer: of one tenant, or on a prepared database of a tenant for each."""
        tenants = [f"faults-{number}" for number in range(WRITERS)] if self.nodes else ["default"]
        keys = []
        for tenant in tenants:
            if self.nodes:
                self._run("tenant", "create", tenant)
            keys.append(str(json.loads(self._run("key", "create", "faults", "-t", tenant, "--role", "admin"))["key"]))
        return [keys[number % len(keys)] for number in range(WRITERS)]

    def _run(self, *arguments: str) -> bytes:
        command = self.command(*arguments, "--json")
        return subprocess.run(command, env=self.environment, check=True, capture_output=True).stdout

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)

    def postmaster(self, node: Node | None = None) -> int | None:
        return self.database.status().pid if node is None else node.pid()

    def _programs(self) -> Path:
        """The programs of PostgreSQL, with a server whose clock can be set."""
        real = embedded_server(Settings(home=self.home)).binary("postgres").parent
        bin_dir = self.folder / "postgres" / "bin"
        bin_dir.mkdir(parents=True)
        for program in real.iterdir():
            (bin_dir / program.name).symlink_to(program)
        for folder in real.parent.iterdir():
            if folder.name != "bin":
                (bin_dir.parent / folder.name).symlink_to(folder)
        settings = (
            f"FAKETIME_TIMESTAMP_FILE={self.folder / CLOCK} FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1"
        )
        server = bin_dir / "postgres"
        server.unlink()
        server.write_text(f'#!/bin/sh\n{settings} LD_PRELOAD={FAKETIME[0]} exec {real / "postgres"} "$@"\n')
        server.chmod(0o755)
        return bin_dir

    def step_clock(self, offset: str) -> None:
        """Set the clock of every process that runs here, at once and not by and by."""
        new = self.folder / f"{CLOCK}.new"
        new.write_text(f"{offset}\n")
        new.chmod(0o644)
        new.replace(self.folder / CLOCK)

    def kill(self, victim: str, draw: random.Random) -> bool:
        """Kill it the hard way; False if it is not there at the moment."""
        if victim == CLOCK:
            self.step_clock(draw.choice(STEPS))
            return True
        if victim in self.processes:
            self.processes[victim].kill()
            self.processes[victim].wait()
            self.start(victim)
            return True
        node = self._node(victim, draw)
        pid = self.postmaster(node)
        if pid is not None and victim == "backend":
            backends = _backends(pid)
            pid = draw.choice(backends) if backends else None
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        if node is not None and victim != "backend":
            node.start()
        return True

    def _node(self, victim: str, draw: random.Random) -> Node | None:
        """The server that a fault is for; None: the embedded one."""
        if not self.nodes:
            return None
        match victim:
            case "postmaster":
                return self.nodes[0]
            case "backend":
                return draw.choice(self.nodes)
        return draw.choice(self.nodes[1:])


def _backends(postmaster: int) -> list[int]:
    """The processes of the server that answer clients."""
    backends = []
    for child in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split():
        try:
            title = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"recordari" in title.split(b": ", 2)[-1]:
            backends.append(int(child))
    return backends


def request_of(mark: str, name: str, number: int) -> tuple[str, dict[str, Any], list[str]]:
    """A write of one of five kinds, and the marks by which it is found again."""
    session = f"chat-{name}-{number // IN_A_SESSION}"
    match number % 5:
        case 0:
            return "/v1/items", {"content": mark, "session_id": session}, [mark]
        case 1:
            marks = [f"{mark}a", f"{mark}b"]
            return "/v1/items/batch", {"items": [{"content": one, "session_id": session} for one in marks]}, marks
        case 2:
            return f"/v1/sessions/{session}/messages", {"messages": [{"content": mark}]}, [mark]
        case 3:
            return f"/v1/sessions/{session}/notes", {"content": mark}, [mark]
    return "/v1/runs", {"session_id": session, "input": {"mark": mark}}, [mark]


async def write(place: Installation, key: str, journal: Journal, name: str, stop: asyncio.Event) -> None:
    """Write one thing after the other; each is sent again under its key until it is acknowledged."""
    headers = {"Authorization": f"Bearer {key}", "Recordari-User": f"user-{name}", "Recordari-Agent": "writer"}
    async with httpx2.AsyncClient(base_url=place.address, timeout=20) as client:
        number = 0
        while not stop.is_set():
            number += 1
            if number == 1 or number % IN_A_SESSION == 0:
                opened = {"session_id": f"chat-{name}-{number // IN_A_SESSION}"}
                await client_write(client, headers, "/v1/sessions", opened, f"{name}-open-{number}", journal)
            path, body, marks = request_of(f"mark {name}-{number}", name, number)
            journal.note("sent", marks)
            await client_write(client, headers, path, body, f"{name}-{number}", journal)
            journal.note("acknowledged", marks)


async def client_write(
    client: httpx2.AsyncClient, headers: dict[str, str], path: str, body: dict[str, Any], key: str, journal: Journal
) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < deadline:
        pause = RETRY_SECONDS
        try:
            answer = await client.post(path, json=body, headers={**headers, "Idempotency-Key": key})
        except httpx2.TransportError as error:
            journal.refused[type(error).__name__] += 1
            pause = ABSENT_SECONDS if isinstance(error, httpx2.ConnectError) else pause
        else:
            if answer.is_success:
                return
            journal.refused[str(answer.status_code)] += 1
            if answer.status_code not in {409, 429, 500, 503, 504}:
                sys.exit(f"{path}: {answer.status_code} {answer.text}")
        await asyncio.sleep(pause)
    sys.exit(f"{path} was not acknowledged within {LONGEST_WAIT:.0f} s")


async def healthy(place: Installation) -> float:
    """Seconds until the server is ready."""
    started = time.monotonic()
    async with httpx2.AsyncClient(base_url=place.address, timeout=5) as client:
        while time.monotonic() - started < LONGEST_WAIT:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return time.monotonic() - started
            except httpx2.TransportError:
                pass
            await asyncio.sleep(0.02)
    sys.exit(f"not healthy within {LONGEST_WAIT:.0f} s; see {place.folder}")


async def kill_many(place: Installation, kills: int, draw: random.Random) -> dict[str, list[float]]:
    """Kill one after the other at times that are drawn; return the seconds until each was healthy again."""
    victims = place.victims
    took: dict[str, list[float]] = {victim: [] for victim in victims}
    for number in range(kills):
        victim = victims[number] if number < len(victims) else draw.choice(victims)
        await asyncio.sleep(draw.uniform(0.05, 1.0))
        while not await asyncio.to_thread(place.kill, victim, draw):
            await asyncio.sleep(0.05)
        await asyncio.sleep(draw.choice([0.0, 0.02]))
        took[victim].append(await healthy(place))
        print(f"{number + 1:4} {victim:11} healthy after {took[victim][-1]:.2f} s", flush=True)
    return took


async def run_out_of_descriptors(place: Installation) -> float:
    """Take every descriptor of the server, give them back, and return the seconds until it is healthy."""
    place.processes["server"].terminate()
    place.processes["server"].wait()
    place.start("server", descriptors=DESCRIPTORS)
    await healthy(place)
    taken = []
    for _ in range(2 * DESCRIPTORS):
        try:
            taken.append(await asyncio.wait_for(asyncio.open_connection("127.0.0.1", place.port), 1))
        except (OSError, TimeoutError):
            break
    await asyncio.sleep(1)
    for _, writer in taken:
        writer.close()
    return await healthy(place)


def count(place: Installation, journal: Journal) -> tuple[list[str], list[str]]:
    """The acknowledged writes that are lost, and those that exist more than once."""
    with psycopg.connect(place.owner) as connection:
        found = Counter(str(row[0]) for row in connection.execute(FOUND))
    lost = [mark for mark in journal.acknowledged if not found[mark]]
    return lost, [mark for mark, times in found.items() if times > 1]


async def work_off(place: Installation) -> list[tuple[object, ...]]:
    """Wait until the work that follows writes is done; what is left of it at the end of patience."""
    deadline = time.monotonic() + LONGEST_WAIT
    while True:
        with psycopg.connect(place.owner) as connection:
            left = connection.execute(WAITING).fetchall()
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.5)


async def campaign(place: Installation, kills: int, seed: int, *, longest: float) -> bool:
    """Run the campaign and print its figures; True if everything held."""
    journal, draw = Journal(place.folder / "journal.jsonl"), random.Random(seed)
    place.start("server")
    try:
        await healthy(place)
        keys = await asyncio.to_thread(place.create_keys)
        place.start("worker")
        stop = asyncio.Event()
        writers = [asyncio.create_task(write(place, key, journal, f"w{n}", stop)) for n, key in enumerate(keys)]
        took = await kill_many(place, kills, draw)
        stop.set()
        await asyncio.gather(*writers)
        descriptors = await run_out_of_descriptors(place)
        lost, doubled = await asyncio.to_thread(count, place, journal)
        left = await work_off(place)
    finally:
        await asyncio.to_thread(place.stop)
    every = [seconds for values in took.values() for seconds in values]
    print(f"seed {seed}, {len(every)} kills ({', '.join(f'{name} {len(values)}' for name, values in took.items())})")
    print(f"acknowledged {len(journal.acknowledged)}, lost {len(lost)}, duplicated {len(doubled)}")
    print(f"sent again after {dict(journal.refused)}; work that was left undone: {left or 'none'}")
    if not FAKETIME:
        print("clock steps: skipped, libfaketime is not installed")
    for name, values in {**took, "all": every}.items():
        if values:
            print(f"healthy after {name}: p50 {statistics.median(values):.2f} s, max {max(values):.2f} s")
    print(f"healthy after running out of descriptors: {descriptors:.2f} s")
    for mark in [*lost, *doubled][:20]:
        print("wrong:", mark)
    # How long a process takes to start is the machine's affair; what Recordari heals by itself has a limit.
    healed = [seconds for name, values in took.items() if name != "server" for seconds in values]
    return not lost and not doubled and not left and max(healed, default=0.0) <= longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--healthy", type=float, default=5.0, help="most seconds until healthy; 0 for any")
    parser.add_argument("--owner", help="the owner's address of a prepared database, in place of an embedded one")
    parser.add_argument("--node", type=Path, action="append", default=[], help="the data folder of one of its servers")
    given = parser.parse_args()
    if bool(given.owner) != bool(given.node):
        parser.error("--owner and --node go together")
    folder = Path(tempfile.mkdtemp(prefix="recordari-faults-"))
    folder.chmod(0o755)  # an unprivileged user runs the database when we are root
    place = Installation(folder, given.owner, [Node(data=data) for data in given.node])
    held = asyncio.run(campaign(place, given.kills, given.seed, longest=given.healthy or float("inf")))
    if not held:
        sys.exit(
            f"something was lost, doubled or slow; repeat with --seed {given.seed}; journal and logs are in {folder}"
        )
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
