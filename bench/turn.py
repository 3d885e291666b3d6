"""A whole turn over REST: what a chat costs the server, the worker and PostgreSQL, each apart.

    python bench/turn.py [--users 300] [--turns 300] [--clients 1] [--profile fast] [--home FOLDER] [--source FOLDER]

Server, worker and PostgreSQL are processes of their own; the client keeps its connection. One tenant has many users with 50 to
100 messages each. A turn is `POST /v1/context` with a new question, then two messages stored. CPU comes from /proc, with
everything derived from the messages: the clock runs until no work is left. It is the figure to trust on a shared machine.
Statements per verb are counted in a process of the benchmark. `--source` measures another checkout with the same client.
Prints tables, writes `bench/results/turn.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
TICK = os.sysconf("SC_CLK_TCK")
NAMES = "Ana Boris Carla Dmitri Elif Farid Greta Hugo Ines Jonas Kaya Lena Marco Nadia Olek Petra Quim Rosa Sven Tara".split()
PLACES = "Lisbon Bergen Turin Kyoto Quito Tartu Ghent Perth Izmir Porto Malmo Cusco Leeds Graz Split".split()
THINGS = (
    "kayak violin bakery greenhouse printer tandem loom telescope sailboat archive kiln radio beehive mural".split()
)
DEEDS = "repaired borrowed sold painted moved ordered cleaned described measured found lost shipped".split()
LINKS = "near because before after without despite behind beside during until".split()
ASKED = ("What about the {thing} in {place}?", "Who {deed} the {thing}?", "When did {name} go to {place}?")
SAID = (
    "{name} {deed} the {thing} in {place} {link} {name2} had asked about the {thing2}, number {number}.",
    "I think the {thing} {link} {place} was {deed} by {name}; it took {number} days and {name2} helped.",
    "My favourite {thing} is the one from {place}. {name} {deed} it {link} the visit of {name2}.",
    "Remember that {name} lives in {place} now and works on a {thing} with {name2} ({number}).",
)


class World:
    """Makes texts; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def _filled(self, forms: tuple[str, ...]) -> str:
        one = self.chance.choice
        return one(forms).format(
            name=one(NAMES),
            name2=one(NAMES),
            deed=one(DEEDS),
            thing=one(THINGS),
            thing2=one(THINGS),
            place=one(PLACES),
            link=one(LINKS),
            number=self.chance.randrange(2, 9_000),
        )

    def said(self) -> str:
        """A message of one or two sentences."""
        return " ".join(self._filled(SAID) for _ in range(self.chance.choice((1, 1, 2))))

    def asked(self) -> str:
        """A question that was hardly asked before."""
        return f"{self._filled(ASKED)} I mean number {self.chance.randrange(9_000)}."


# Processes ----------------------------------------------------------------------------------------------------------


@dataclass
class Processes:
    """Server, worker and PostgreSQL, and how much they have worked."""

    server: subprocess.Popen[bytes]
    worker: subprocess.Popen[bytes]
    home: Path
    port: int
    keys: dict[str, str]

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, children included."""
        postmaster = int((self.home / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        return {
            "server": tree_cpu(self.server.pid),
            "worker": tree_cpu(self.worker.pid),
            "postgres": tree_cpu(postmaster),
        }


def tree_cpu(pid: int) -> float:
    """Seconds of CPU of a process, its children that ended, and those that run."""
    parents: dict[int, list[int]] = {}
    figures: dict[int, list[str]] = {}
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                figures[int(entry)] = fields
                parents.setdefault(int(fields[1]), []).append(int(entry))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        total += sum(map(int, figures[one][11:15])) if one in figures else 0
        waiting += parents.get(one, ())
    return total / TICK


@contextlib.contextmanager
def running(home: Path, source: Path, profile: str, server_options: list[str]) -> Iterator[Processes]:
    """A server and a worker of a checkout on the embedded database in `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECORDARI_")}
    environment = {
        **kept,
        "PYTHONPATH": str(source / "src"),
        "RECORDARI_HOME": str(home),
        "RECORDARI_RATE_LIMIT": "",
        "RECORDARI_LOG_FORMAT": "json",
        "RECORDARI_EMBEDDING_PROFILE": profile,
    }
    program = [sys.executable, "-m", "recordari"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with (home / f"{arguments[0]}.log").open("ab") as log:
            started.append(subprocess.Popen([*program, *arguments], env=environment, cwd=home, stdout=log, stderr=log))
        return started[-1]

    try:
        server = start("serve", "--port", str(port), "--no-worker", *server_options)
        wait_until_ready(port, server)
        worker = start("worker")
        yield Processes(server, worker, home, port, make_keys(program, environment, home))
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def make_keys(program: list[str], environment: dict[str, str], home: Path) -> dict[str, str]:
    """A key for each role; kept in the folder, because none can be read again."""
    path = home / "keys.json"
    if not path.exists():
        options: dict[str, Any] = {"env": environment, "cwd": home, "check": True, "capture_output": True}
        subprocess.run([*program, "tenant", "create", "bench"], **options)
        keys = {}
        for role in ("agent", "admin"):
            made = subprocess.run([*program, "key", "create", role, "-t", "bench", "--role", role, "--json"], **options)
            keys[role] = json.loads(made.stdout)["key"]
        path.write_text(json.dumps(keys), encoding="utf-8")
    read: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return read


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with contextlib.suppress(OSError):
            probe = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            probe.request("GET", "/readyz")
            if probe.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise SystemExit("the server did not start; see serve.log in the folder")


class Client:
    """One kept connection."""

    def __init__(self, processes: Processes, role: str = "agent") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", processes.port, timeout=60)
        self.head = {"Authorization": f"Bearer {processes.keys[role]}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: object = None, **names: str) -> Any:
        """The answer; it must be a good one."""
        headers = self.head | {f"Recordari-{name.title()}": value for name, value in names.items()}
        self.connection.request(method, path, json.dumps(body).encode() if body is not None else None, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text) if text[:1] in (b"{", b"[") else text


# Measuring ----------------------------------------------------------------------------------------------------------


@dataclass
class Times:
    """Seconds of each call, by what was called."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, name: str, call: Callable[[], Any]) -> None:
        start = time.perf_counter()
        call()
        passed = time.perf_counter() - start
        with self.lock:
            self.seconds.setdefault(name, []).append(passed)

    def milliseconds(self, name: str, share: float) -> float:
        found = sorted(self.seconds[name])
        return found[min(len(found) - 1, int(len(found) * share))] * 1000


def fill(processes: Processes, users: int) -> tuple[int, float]:
    """Import 50 to 100 messages for each user, as a chat of the past; returns how many, and the seconds it took."""
    client, world, number = Client(processes), World(1), 0
    start = time.perf_counter()
    for user in range(users):
        many = world.chance.randrange(50, 101)
        said = [{"content": world.said(), "role": "user" if one % 2 == 0 else "assistant"} for one in range(many)]
        body = {"messages": said, "scope": "user"}
        client.ask("POST", f"/v1/sessions/past-{user}/messages", body, user=f"user-{user}")
        number += many
    return number, time.perf_counter() - start


def wait_until_idle(processes: Processes) -> None:
    """Wait until no derived work is left."""
    client = Client(processes, "admin")
    while any(client.ask("GET", "/v1/jobs/counts")["outbox_pending"].values()):
        time.sleep(0.1)


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


def turn(client: Client, world: World, users: int, times: Times, user: int | None = None) -> None:
    """A question, its context, and the two messages."""
    user = world.chance.randrange(users) if user is None else user
    question, session, names = world.asked(), f"now-{user}", {"user": f"user-{user}"}
    times.run("context", lambda: client.ask("POST", "/v1/context", {"question": question}, **names, session=session))
    said = [{"content": question, "role": "user"}, {"content": world.said(), "role": "assistant"}]
    body = {"messages": said, "scope": "user"}
    times.run("messages", lambda: client.ask("POST", f"/v1/sessions/{session}/messages", body, **names))


def measure_turns(processes: Processes, users: int, turns: int, clients: int) -> dict[str, Any]:
    """Turns of so many clients at once, and the CPU that they and all that follows from them cost."""
    warm_up, world = Client(processes), World(time.time_ns())
    for user in range(
        min(users, 100)
    ):  # a session speaks more than once, and a server answers for longer than a minute
        turn(warm_up, world, users, Times(), user)
    wait_until_idle(processes)
    times, before, start = Times(), processes.cpu(), time.perf_counter()

    def work(number: int) -> None:
        client, world = Client(processes), World(1000 + number + time.time_ns())
        for _ in range(turns // clients):
            turn(client, world, users, times)

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
    return {"clients": clients, "turns_a_second": done / passed, "cpu": cpu | {"all": sum(cpu.values())}, **verbs}


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
    turns = Table("clients", "turns/s", "context p50/p95", "messages p50/p95", "server", "worker", "PostgreSQL", "all")
    turns.title = f"a turn: {found['users']} users, {found['items']} items, {found['profile']}; CPU in ms"
    for one in found["turns"]:
        cpu = [f"{one['cpu'][name]:.1f}" for name in ("server", "worker", "postgres", "all")]
        spread = [f"{one[name]['p50']:.1f} / {one[name]['p95']:.1f}" for name in ("context", "messages")]
        turns.add_row(str(one["clients"]), f"{one['turns_a_second']:.1f}", *spread, *cpu)
    console.print(turns)
    verbs = Table("verb", "statements", "round trips", "which", title="statements per verb")
    for name, one in found.get("statements", {}).items():
        which = ", ".join(f"{statement} ×{many}" if many > 1 else statement for statement, many in one["sent"].items())
        verbs.add_row(name, str(one["statements"]), str(one["round_trips"]), which)
    console.print(verbs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--clients", default="1,8", help="numbers of clients at once, each measured")
    parser.add_argument("--profile", choices=("fast", "best"), default="fast")
    parser.add_argument("--home", type=Path, help="a folder that is kept, and used again when it is full")
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout whose server is measured")
    parser.add_argument("--serve", default="", help="further options of `recordari serve`")
    asked = parser.parse_args()
    home = (asked.home or Path(tempfile.mkdtemp(prefix="recordari-turn-"))).resolve()
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)  # an unprivileged user runs the database when we are root
    found: dict[str, Any] = {"users": asked.users, "profile": asked.profile, "turns": []}
    try:
        with running(home, asked.source, asked.profile, asked.serve.split()) as processes:
            filled = home / "filled.json"
            if not filled.exists():
                before = processes.cpu()
                items, seconds = fill(processes, asked.users)
                wait_until_idle(processes)
                cpu = {name: (figure - before[name]) / items * 1000 for name, figure in processes.cpu().items()}
                filled.write_text(json.dumps({"items": items, "a_second": items / seconds, "cpu": cpu}))
            found["import"] = json.loads(filled.read_text())
            found["items"] = found["import"]["items"]
            found["overhead"] = {path: overhead(processes, path) for path in ("/healthz", "/v1/whoami")}
            for clients in map(int, asked.clients.split(",")):
                found["turns"].append(measure_turns(processes, asked.users, asked.turns, clients))
        if asked.source == ROOT:
            found["statements"] = asyncio.run(count_statements(home, asked.profile))
    finally:
        if asked.home is None:
            shutil.rmtree(home, ignore_errors=True)
    show(found)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "turn.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
