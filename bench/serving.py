"""What the benchmarks over REST share: made-up chats, a server with its worker and PostgreSQL, and a client.

Server, worker and PostgreSQL are processes of their own, whose CPU comes from /proc: it is the figure to trust on a shared
machine.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


@contextlib.contextmanager
def folder(kept: Path | None, prefix: str) -> Iterator[Path]:
    """A folder for a server's data: the one that is kept, or one that is removed at the end."""
    home = (kept or Path(tempfile.mkdtemp(prefix=prefix))).resolve()
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)  # an unprivileged user runs the database when we are root
    try:
        yield home
    finally:
        if kept is None:
            shutil.rmtree(home, ignore_errors=True)


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
            "server": tree_cpu(self.server.pid, without=postmaster),  # which it has started
            "worker": tree_cpu(self.worker.pid, without=postmaster),
            "postgres": tree_cpu(postmaster),
        }


def tree_cpu(pid: int, *, without: int | None = None) -> float:
    """Seconds of CPU of a process, its children that ended, and those that run; without one of these and its own."""
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
        waiting += (child for child in parents.get(one, ()) if child != without)
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


def unit_of_work() -> float:
    """Milliseconds of CPU that a fixed piece of work takes now: on a crowded machine all work takes more of it."""
    start = time.process_time()
    for _ in range(20):
        json.loads(json.dumps({f"name {number}": [number, str(number)] for number in range(500)}))
    return (time.process_time() - start) * 1000


def wait_until_idle(processes: Processes) -> None:
    """Wait until no derived work is left."""
    client = Client(processes, "admin")
    while any(client.ask("GET", "/v1/jobs/counts")["outbox_pending"].values()):
        time.sleep(0.1)


def turn(client: Client, world: World, users: int, times: Times, user: int | None = None) -> None:
    """A question, its context, and the two messages."""
    user = world.chance.randrange(users) if user is None else user
    question, session, names = world.asked(), f"now-{user}", {"user": f"user-{user}"}
    times.run("context", lambda: client.ask("POST", "/v1/context", {"question": question}, **names, session=session))
    said = [{"content": question, "role": "user"}, {"content": world.said(), "role": "assistant"}]
    body = {"messages": said, "scope": "user"}
    times.run("messages", lambda: client.ask("POST", f"/v1/sessions/{session}/messages", body, **names))
