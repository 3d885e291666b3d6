"""The hook program as a coding agent calls it: how long the agent waits at each event.

    python bench/hook.py [--users 300] [--rounds 40] [--profile fast] [--home FOLDER]

Server, worker and PostgreSQL are processes of their own; one tenant has many users with 50 to 150 messages each. Every call is
a new process of Python, as with a real host, in a session that goes on; `--prompts` is on, so that a prompt asks for a context.
CPU is that of the hook; on a shared machine, the least time is nearest to that of a quiet one. `(python)` is a Python that does
nothing: what no hook in Python can go below.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from crowd import prepared
from recordari import hosts
from serving import ROOT, Client, Processes, World, folder, running

ORIGINALS = 20
EVENTS = ("start", "prompt", "tool", "stop", "compact", "end")


def settings_of(processes: Processes, home: Path) -> Path:
    """The file that `recordari install` writes for a host, with a key of one user."""
    admin = Client(processes, "admin")
    key = admin.ask("POST", "/v1/keys", {"name": "hook", "user_id": "user-7", "agent_id": "claude-code"})["key"]
    place = {
        "host": "127.0.0.1",
        "port": processes.port,
        "start": None,
        "environment": {},
        "folder": str(home / "hosts"),
    }
    answers = {
        "answers": "hookSpecificOutput",
        "agent": "claude-code",
        "budget": 1_500,
        "prompts": True,
        "seconds": 1.0,
    }
    file = home / "hosts" / "claude-code.json"
    file.parent.mkdir(exist_ok=True)
    (file.parent / "hook.log").unlink(missing_ok=True)
    file.write_text(json.dumps({**place, **answers, "key": key}))
    return file


def given(event: str, number: int, world: World) -> dict[str, object]:
    """What a host says at an event of one of its sessions."""
    what: dict[str, dict[str, object]] = {
        "prompt": {"prompt": world.asked()},
        "tool": {
            "tool_name": "Bash",
            "tool_input": {"command": "make test"},
            "tool_response": {"stdout": world.said()},
        },
        "stop": {"last_assistant_message": world.said()},
    }
    return {"session_id": f"hook-{time.time_ns()}-{number}", "cwd": str(Path.cwd()), **what.get(event, {})}


def measure(settings: Path, rounds: int) -> None:
    command = [sys.executable, "-I", "-S", hosts.__file__, str(settings)]
    times: dict[str, list[float]] = {}
    cpu: dict[str, float] = {}
    world = World(time.time_ns())
    for number in range(rounds + 1):
        session = given("start", number, world)["session_id"]
        for event in ("(python)", *EVENTS):
            run = [sys.executable, "-I", "-S", "-c", "pass"] if event == "(python)" else [*command, event]
            line = json.dumps({**given(event, number, world), "session_id": session}).encode()
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(run, input=line, stdout=subprocess.DEVNULL, check=True)
            passed, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
            if number:  # the first session warms up
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                times.setdefault(event, []).append(passed * 1000)
                cpu[event] = cpu.get(event, 0.0) + spent * 1000 / rounds
    print(f"{'event':9} {'least ms':>9} {'p50 ms':>7} {'p95 ms':>7} {'CPU ms':>7}")
    for event, passed_ms in times.items():
        ordered = sorted(passed_ms)
        p95 = ordered[int(len(ordered) * 0.95) - 1]
        print(f"{event:9} {ordered[0]:9.0f} {statistics.median(ordered):7.0f} {p95:7.0f} {cpu[event]:7.0f}")
    outcomes: dict[str, int] = {}
    for text in (settings.parent / "hook.log").read_text("utf-8").splitlines():
        outcome = json.loads(text)["outcome"]
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    print("outcomes", outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--profile", default="fast")
    parser.add_argument("--home", type=Path)
    asked = parser.parse_args()
    with folder(asked.home, "recordari-hook-") as home, running(home, ROOT, asked.profile, []) as processes:
        items = prepared(processes, home, users=asked.users, originals=ORIGINALS, least=50, most=150)
        print(f"{asked.users} users, {items} items, profile {asked.profile}, {asked.rounds} sessions")
        measure(settings_of(processes, home), asked.rounds)


if __name__ == "__main__":
    main()
