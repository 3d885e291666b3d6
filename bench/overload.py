"""Measure what a crowd does to others: a flood of one tenant, listeners, stalled connections, no file descriptors.

A real server on a real embedded database; the clients are processes of their own on the same machine (`tests/crowd.py`), niced
below the server. The rate limit is off, so that places alone must hold. Idle and flooded are measured in turns, and the
medians of the rounds count. Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CROWD = Path(__file__).parent.parent / "tests" / "crowd.py"
CUT_WITHIN = 15.0
NICE = 5


@dataclass
class Server:
    """A running server: where it listens, keys of two tenants, and its log."""

    process: subprocess.Popen[bytes]
    port: int
    keys: dict[str, str]
    log: Path

    def cpu(self) -> float:
        """Seconds of CPU of the server process so far; its database is not in it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def lines(self, event: str) -> list[dict[str, Any]]:
        lines = (json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines() if line[:1] == "{")
        return [line for line in lines if line["event"] == event]

    def post(self, path: str, body: object, tenant: str) -> int:
        """The status of a request."""
        headers = {"Authorization": f"Bearer {self.keys[tenant]}", "Recordari-User": "ana"}
        headers["Content-Type"] = "application/json"
        url = f"http://127.0.0.1:{self.port}{path}"
        sent = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(sent, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@dataclass
class Results:
    """Rows of the table: what, figure, goal, whether it is reached."""

    rows: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def add(self, what: str, figure: str, goal: str = "", *, reached: bool = True) -> None:
        self.rows.append((what, figure, goal, reached))

    def show(self) -> int:
        table = Table("what", "figure", "goal", "")
        for what, figure, goal, reached in self.rows:
            table.add_row(what, figure, goal, ("reached" if reached else "MISSED") if goal else "")
        Console(width=140).print(table)
        return 0 if all(reached for *_, reached in self.rows) else 1


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A fresh server with the tenants `quiet` and `flooding`."""
    home = Path(tempfile.mkdtemp(prefix="recordari-overload-"))
    home.chmod(0o755)  # an unprivileged user runs the database when we are root
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECORDARI_")}
    environment = {**kept, "RECORDARI_HOME": str(home), "RECORDARI_RATE_LIMIT": "", "RECORDARI_LOG_FORMAT": "json"}
    program = [sys.executable, "-m", "recordari"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log = home / "server.log"
    with log.open("wb") as errors:
        command = [*program, "serve", "--port", str(port)]
        process = subprocess.Popen(command, env=environment, cwd=home, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        _wait_until_ready(port, process)
        keys = {}
        for tenant in ("quiet", "flooding"):
            options: dict[str, Any] = {"env": environment, "cwd": home, "check": True, "capture_output": True}
            subprocess.run([*program, "tenant", "create", tenant], **options)
            made = subprocess.run(
                [*program, "key", "create", "load", "-t", tenant, "--role", "admin", "--json"], **options
            )
            keys[tenant] = json.loads(made.stdout)["key"]
        yield Server(process=process, port=port, keys=keys, log=log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        shutil.rmtree(home, ignore_errors=True)


def _wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def start(server: Server, role: str, tenant: str, *options: object) -> subprocess.Popen[str]:
    """Start a crowd."""
    command = [sys.executable, CROWD, role, "--port", server.port, "--key", server.keys[tenant], *options]
    return subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(crowd: subprocess.Popen[str]) -> dict[str, Any]:
    """What a crowd has seen, when it is done."""
    output, _ = crowd.communicate()
    seen: dict[str, Any] = json.loads(output.splitlines()[-1])
    seen["served"] = sum(number for status, number in seen["statuses"].items() if status.startswith("2"))
    seen["refused"] = seen["statuses"].get("503", 0) + seen["statuses"].get("429", 0)
    return seen


def p95(seen: dict[str, Any]) -> float:
    return float(seen["seconds"][int(len(seen["seconds"]) * 0.95)]) * 1000 if seen["seconds"] else float("inf")


def flood(server: Server, results: Results, arguments: argparse.Namespace) -> None:
    """A quiet tenant beside a flooding one."""
    mix = ("--one-write-in", arguments.one_write_in)
    quiet = ("--pause", 0.05, "--seconds", arguments.seconds, *mix)
    crowd = ("--nice", NICE, *mix)
    finish(start(server, "crowd", "quiet", "--seconds", 3, *mix))  # loads the models
    rounds: list[dict[str, float]] = []
    refused_quiet = refusals = 0
    for number in range(arguments.rounds):
        seed = ("--seed", number * 100)
        idle = finish(start(server, "crowd", "quiet", *quiet, *seed))
        polite_options = ("--clients", 100, "--polite", "--seconds", arguments.seconds)
        polite = finish(start(server, "crowd", "flooding", *polite_options, *crowd, *seed))
        before = server.cpu()
        flooding = start(
            server, "crowd", "flooding", "--clients", 500, "--seconds", arguments.seconds + 4, *crowd, *seed
        )
        time.sleep(3)
        beside = finish(start(server, "crowd", "quiet", *quiet, *seed))
        flooded = finish(flooding)
        refused_quiet += beside["refused"]
        refusals += flooded["refused"]
        rounds.append(
            {
                "idle": p95(idle),
                "beside": p95(beside),
                "ratio": p95(beside) / p95(idle),
                "polite": polite["served"] / arguments.seconds,
                "flooded": flooded["served"] / (arguments.seconds + 4),
                "server": server.cpu() - before,
                "client": flooded["cpu"] + beside["cpu"],
            }
        )
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    share = statistics.median(one["flooded"] / one["polite"] for one in rounds)
    results.add("quiet tenant alone, p95", f"{middle['idle']:.0f} ms")
    results.add("quiet tenant beside 500 flooding clients, p95", f"{middle['beside']:.0f} ms")
    results.add("… against alone", f"{middle['ratio']:.1f} x", "at most 3 x", reached=middle["ratio"] <= 3)
    results.add("… its requests refused", f"{refused_quiet}", "0", reached=refused_quiet == 0)
    results.add("100 polite clients, served", f"{middle['polite']:.0f} / s")
    results.add("500 flooding clients, served", f"{middle['flooded']:.0f} / s, {refusals} refused")
    results.add("… against polite", f"{share:.2f}", "at least 0.5", reached=share >= 0.5)
    results.add("CPU during a flood: server, clients", f"{middle['server']:.1f} s, {middle['client']:.1f} s")
    logged = server.lines("requests_refused")
    results.add("log lines for refusals", f"{len(logged)}", "one a second", reached=are_apart(logged))


def are_apart(lines: list[dict[str, Any]]) -> bool:
    """Whether lines with the same fields are a second apart."""
    by_fields: dict[tuple[object, ...], list[datetime]] = {}
    for line in lines:
        fields = (line.get("code"), line.get("tenant_id"), line.get("reason"))
        by_fields.setdefault(fields, []).append(datetime.fromisoformat(line["at"]))
    gaps = (later - earlier for times in by_fields.values() for earlier, later in pairwise(times))
    return all(gap > timedelta(seconds=0.99) for gap in gaps)


def feed(server: Server, results: Results, arguments: argparse.Namespace) -> None:
    """Listeners of the change feed, some of which never read."""
    before, events = server.cpu(), 20
    listening = start(server, "followers", "quiet", "--clients", arguments.listeners, "--nice", NICE)
    asleep = start(server, "followers", "quiet", "--clients", 20, "--unread", "--nice", NICE)
    assert listening.stdout is not None
    opened = json.loads(listening.stdout.readline())["open"]
    for number in range(events):
        server.post("/v1/items", {"kind": "fact", "content": f"Ana heard of event {number}"}, "quiet")
    time.sleep(arguments.seconds)
    heard = finish(listening)
    finish(asleep)
    wanted = arguments.listeners
    results.add(f"{wanted} listeners of the feed, opened", f"{opened}", f"{wanted}", reached=opened == wanted)
    results.add("… cut", f"{heard['cuts']}", "0", reached=heard["cuts"] == 0)
    told = heard["events"] / max(1, opened)
    results.add(f"… events heard by each of {events}", f"{told:.1f}", f"{events}", reached=told >= events)
    results.add("CPU for them: server, clients", f"{server.cpu() - before:.1f} s, {heard['cpu']:.1f} s")


def stalled(server: Server, results: Results, arguments: argparse.Namespace) -> None:
    """Connections that never send a whole request."""
    count = arguments.stalled
    seen = finish(start(server, "stalled", "quiet", "--clients", count, "--seconds", 60))
    results.add(f"{count} stalled connections, cut", f"{seen['cuts']}", f"{count}", reached=seen["cuts"] == count)
    longest = max(seen["seconds"], default=float("inf"))
    results.add("… the last after", f"{longest:.1f} s", "15 s", reached=longest <= CUT_WITHIN)


def descriptors(server: Server, results: Results, arguments: argparse.Namespace) -> None:
    """No file descriptors, and then some again."""
    pid = server.process.pid
    limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    in_use = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 20, limit[1]))
    size = server.log.stat().st_size
    before = len(server.log.read_bytes()[:size].splitlines())
    waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    time.sleep(5)
    written = len(server.log.read_text(encoding="utf-8").splitlines()) - before
    lines = server.lines("connections_not_accepted")
    results.add("out of file descriptors for 5 s, log lines", f"{written}", "one a second", reached=are_apart(lines))
    for one in waiting:
        one.close()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
    status = server.post("/v1/recall", {"query": "Is anybody there?"}, "quiet")
    results.add("… and a request after it", f"{status}", "200", reached=status == 200)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one-write-in", type=int, default=0, help="one request in so many remembers a fact; 0: none")
    parser.add_argument("--listeners", type=int, default=500)
    parser.add_argument("--stalled", type=int, default=200)
    arguments = parser.parse_args()
    results = Results()
    with serving() as server:
        for part in (flood, feed, stalled, descriptors):
            part(server, results, arguments)
    return results.show()


if __name__ == "__main__":
    raise SystemExit(main())
