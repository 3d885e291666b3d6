"""Many live sessions over REST for some minutes: latency, errors, backlog and CPU over time.

    python bench/soak.py [--sessions 10000] [--minutes 10] [--rates 50,100] [--profile fast] [--home FOLDER] [--serve OPTIONS]

Every session speaks once a minute: a context for a new question, then two messages. Turns begin when they are due, whether
the ones before have been answered or not, and their time counts from then. `--rates` are turns a second to try one after the
other instead of the rate of the sessions. Server, worker and PostgreSQL are processes of their own, and this one is the
client. The sessions' users have 50 to 150 messages in their past; most are copies of others, made by SQL. Prints tables,
writes `bench/results/soak.json` and the plot `bench/results/soak.svg`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import uvloop
from rich.console import Console
from rich.table import Table

from crowd import prepared
from recordari.evaluation.rules import svg
from serving import RESULTS, ROOT, Client, Processes, World, folder, running, wait_until_idle

ORIGINALS = 20
LEAST, MOST = 50, 150  # messages in the past of a user
GOAL_MS = 100.0
CONNECTIONS = 256
MOST_WAITING = 5_000  # turns under way: the server has fallen behind for good
PATIENCE = 30.0
WARM_UP = 200


class Connection(asyncio.Protocol):
    """One kept connection, with one request at a time: as little work as can be, because it shares the machine."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are of another class

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        place = self._received.lower().find(b"content-length:", 0, end)
        length = int(self._received[place + 15 : self._received.find(b"\r\n", place)]) if place >= 0 else 0
        if len(self._received) >= end + 4 + length and not self._answer.done():
            status = int(self._received[9:12])
            self._received.clear()
            self._answer.set_result(status)

    async def ask(self, request: bytes) -> int:
        """The status of the answer."""
        assert self.transport is not None
        self._received.clear()
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer


@dataclass(slots=True)
class Period:
    """Some seconds of a run."""

    seconds: float = 0.0
    """From the beginning of the run to its end."""
    contexts: list[float] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)
    errors: int = 0
    backlog: int = 0
    waiting: int = 0
    """Turns under way at its end."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Cores in use."""

    def row(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "context_p50": quantile(self.contexts, 0.5),
            "context_p95": quantile(self.contexts, 0.95),
            "messages_p50": quantile(self.messages, 0.5),
            "messages_p95": quantile(self.messages, 0.95),
            "turns": len(self.messages),
            "errors": self.errors,
            "backlog": self.backlog,
            "waiting": self.waiting,
            "cpu": self.cpu,
        }


def quantile(values: Sequence[float], share: float) -> float:
    """In milliseconds; 0 where there is none."""
    found = sorted(values)
    return round(found[min(len(found) - 1, int(len(found) * share))] * 1000, 1) if found else 0.0


class Soak:
    """A run at one rate."""

    def __init__(self, processes: Processes, sessions: int, rate: float, seconds: float, period: float) -> None:
        self.processes = processes
        self.rate = rate
        self.seconds = seconds
        self.period = period
        self.world = World(time.time_ns())
        self.order = list(range(sessions))
        self.world.chance.shuffle(self.order)
        self.current = Period()
        self.periods: list[Period] = []
        self.problems: Counter[str] = Counter()
        self.idle: list[Connection] = []
        self.places = asyncio.Semaphore(CONNECTIONS)
        self.head = (
            f"Host: 127.0.0.1\r\nAuthorization: Bearer {processes.keys['agent']}\r\nContent-Type: application/json\r\n"
        )

    def _request(self, path: str, body: object, user: int) -> bytes:
        written = json.dumps(body).encode()
        names = (
            f"Recordari-User: user-{user}\r\nRecordari-Session: now-{user}\r\nContent-Length: {len(written)}\r\n\r\n"
        )
        return f"POST {path} HTTP/1.1\r\n{self.head}{names}".encode() + written

    async def _ask(self, request: bytes) -> bool:
        async with self.places:
            connection = self.idle.pop() if self.idle else None
            try:
                if connection is None or connection.transport is None:
                    loop = asyncio.get_running_loop()
                    _, connection = await loop.create_connection(Connection, "127.0.0.1", self.processes.port)
                async with asyncio.timeout(PATIENCE):
                    status = await connection.ask(request)
            except (OSError, TimeoutError) as error:
                self.problems[type(error).__name__] += 1
                if connection is not None and connection.transport is not None:
                    connection.transport.abort()
                return False
            self.idle.append(connection)
        if status >= 300:
            self.problems[str(status)] += 1
        return status < 300

    async def _turn(self, user: int, due: float) -> None:
        question = self.world.asked()
        is_answered = await self._ask(self._request("/v1/context", {"question": question}, user))
        answered = time.perf_counter()
        self.current.contexts.append(answered - due)
        said = [{"content": question, "role": "user"}, {"content": self.world.said(), "role": "assistant"}]
        path = f"/v1/sessions/now-{user}/messages"
        is_kept = await self._ask(self._request(path, {"messages": said, "scope": "user"}, user))
        self.current.messages.append(time.perf_counter() - answered)
        self.current.errors += 2 - is_answered - is_kept

    def _note_failure(self, turn: asyncio.Task[None]) -> None:
        if not turn.cancelled() and (error := turn.exception()) is not None:
            self.problems[type(error).__name__] += 1

    async def run(self) -> None:
        """Begin each turn when it is due, until the time is over or the server is far behind."""
        watching = asyncio.create_task(self._watch())
        under_way: set[asyncio.Task[None]] = set()
        start = time.perf_counter()
        for number in range(int(self.rate * self.seconds)):
            due = start + number / self.rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            turn = asyncio.create_task(self._turn(self.order[number % len(self.order)], due))
            under_way.add(turn)
            turn.add_done_callback(under_way.discard)
            turn.add_done_callback(self._note_failure)
            self.current.waiting = len(under_way)
            if len(under_way) > MOST_WAITING:
                self.problems["fell behind"] += 1
                break
        if under_way:
            await asyncio.wait(under_way, timeout=PATIENCE)
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        for turn in under_way:
            turn.cancel()
        for connection in self.idle:
            if connection.transport is not None:
                connection.transport.close()

    async def _watch(self) -> None:
        admin, start = Client(self.processes, "admin"), time.perf_counter()
        loop, cpu, then = asyncio.get_running_loop(), self.processes.cpu(), start
        while True:
            await asyncio.sleep(self.period)
            pending = await loop.run_in_executor(None, _backlog, admin)
            now, used = time.perf_counter(), self.processes.cpu()
            ended, self.current = self.current, Period(waiting=self.current.waiting)
            before = self.periods[-1].backlog if self.periods else 0
            ended.seconds, ended.backlog = now - start, before if pending is None else pending
            ended.cpu = {name: round((used[name] - cpu[name]) / (now - then), 3) for name in used}
            self.periods.append(ended)
            cpu, then = used, now

    def summary(self) -> dict[str, Any]:
        contexts = [one for period in self.periods for one in period.contexts]
        messages = [one for period in self.periods for one in period.messages]
        cores = {
            name: sum(period.cpu[name] for period in self.periods) / max(1, len(self.periods))
            for name in ("server", "worker", "postgres")
        }
        turns = len(messages) / max(1e-9, self.periods[-1].seconds) if self.periods else 0.0
        return {
            "rate": self.rate,
            "turns_a_second": turns,
            "context_p50": quantile(contexts, 0.5),
            "context_p95": quantile(contexts, 0.95),
            "messages_p50": quantile(messages, 0.5),
            "messages_p95": quantile(messages, 0.95),
            "errors": sum(self.problems.values()),
            "problems": dict(self.problems),
            "most_backlog": max((period.backlog for period in self.periods), default=0),
            "last_backlog": self.periods[-1].backlog if self.periods else 0,
            "cores": cores,
            "cpu_of_a_turn": sum(cores.values()) * 1000 / turns if turns else 0.0,
            "periods": [period.row() for period in self.periods],
        }


def show(found: dict[str, Any]) -> None:
    console = Console(width=150)
    table = Table("turns/s offered", "done", "context p50/p95", "messages p50/p95", "errors", "backlog most/last")
    for name in ("server", "worker", "PostgreSQL", "CPU ms/turn"):
        table.add_column(name)
    table.title = f"{found['sessions']:,} sessions, {found['items']:,} items, {found['profile']}; cores in use"
    for one in found["runs"]:
        table.add_row(
            f"{one['rate']:.1f}",
            f"{one['turns_a_second']:.1f}",
            f"{one['context_p50']:.0f} / {one['context_p95']:.0f}",
            f"{one['messages_p50']:.0f} / {one['messages_p95']:.0f}",
            ", ".join(f"{name} ×{many}" for name, many in one["problems"].items()) or "0",
            f"{one['most_backlog']:,} / {one['last_backlog']:,}",
            *(f"{one['cores'][name]:.2f}" for name in ("server", "worker", "postgres")),
            f"{one['cpu_of_a_turn']:.1f}",
        )
    console.print(table)
    held = [one["rate"] for one in found["runs"] if holds(one)]
    limit = f"p95 of contexts and messages ≤ {GOAL_MS:.0f} ms without an error"
    console.print(f"{limit}: held at {max(held):.1f} turns/s" if held else f"{limit}: not held at any of these rates")
    over_time = Table("second", "context p50", "p95", "messages p50", "p95", "turns", "errors", "backlog", "under way")
    over_time.title = "the last run over time"
    for row in found["runs"][-1]["periods"]:
        shown = ("seconds", "context_p50", "context_p95", "messages_p50", "messages_p95", "turns", "errors", "backlog")
        over_time.add_row(*(f"{row[name]:.0f}" for name in shown), str(row["waiting"]))
    console.print(over_time)


def holds(run: dict[str, Any]) -> bool:
    return bool(run["turns_a_second"]) and not run["errors"] and max(run["context_p95"], run["messages_p95"]) <= GOAL_MS


def plot(run: dict[str, Any], title: str) -> str:
    """Latency, backlog and cores over the minutes of a run."""
    rows = run["periods"]
    minutes = max(rows[-1]["seconds"] / 60, 0.1)
    curves = {
        "milliseconds": {"context p95": "context_p95", "context p50": "context_p50", "messages p95": "messages_p95"},
        "entries in the outbox": {"backlog": "backlog"},
        "cores": {"server": "server", "worker": "worker", "PostgreSQL": "postgres"},
    }
    body: list[str] = []
    for number, (name, lines) in enumerate(curves.items()):
        points = {
            label: [(row["seconds"] / 60, row.get(key, row["cpu"].get(key, 0.0))) for row in rows]
            for label, key in lines.items()
        }
        most = max([value for line in points.values() for _, value in line] + [0.1]) * 1.1
        frame = svg.Frame(left=70, top=50 + number * 210, width=620, height=120, most_x=minutes, most_y=most)
        steps = [round(minutes * step / 5, 1) for step in range(6)]
        body += frame.axes(steps, [round(most * step / 3, 1) for step in range(4)], title=name, below="minutes")
        for place, (label, line) in enumerate(points.items()):
            body.append(frame.curve(line, svg.COLOURS[place]))
            body.append(svg.text(700, frame.top + 14 + 18 * place, label, fill=svg.COLOURS[place]))
    return svg.picture(840, 680, title, body)


def _backlog(admin: Client) -> int | None:
    """The derived work that is left; None if the server is too busy to say it."""
    try:
        pending: dict[str, int] = admin.ask("GET", "/v1/jobs/counts")["outbox_pending"]
        return sum(pending.values())
    except SystemExit:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each rate")
    parser.add_argument("--rates", default="", help="turns a second to try; default: each session once a minute")
    parser.add_argument("--profile", choices=("fast", "best"), default="fast")
    parser.add_argument("--home", type=Path, help="a folder that is kept, and used again when it is full")
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout whose server is measured")
    parser.add_argument("--serve", default="", help="further options of `recordari serve`")
    asked = parser.parse_args()
    found: dict[str, Any] = {"sessions": asked.sessions, "profile": asked.profile, "runs": []}
    rates = [float(rate) for rate in asked.rates.split(",") if rate] or [asked.sessions / 60]
    with (
        folder(asked.home, "recordari-soak-") as home,
        running(home, asked.source, asked.profile, asked.serve.split()) as processes,
    ):
        originals = min(ORIGINALS, asked.sessions)
        crowd = {"users": asked.sessions, "originals": originals, "least": LEAST, "most": MOST}
        found["items"] = prepared(processes, home, **crowd)
        seconds = asked.minutes * 60
        uvloop.run(Soak(processes, asked.sessions, 5.0, WARM_UP / 5.0 if asked.home is None else 10.0, 60.0).run())
        for rate in rates:
            wait_until_idle(processes)
            soak = Soak(processes, asked.sessions, rate, seconds, min(10.0, max(2.0, seconds / 60)))
            uvloop.run(soak.run())
            found["runs"].append(soak.summary())
    show(found)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "soak.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    title = f"{asked.sessions:,} sessions, {found['runs'][-1]['rate']:.0f} turns a second"
    (RESULTS / "soak.svg").write_text(plot(found["runs"][-1], title), encoding="utf-8")


if __name__ == "__main__":
    main()
