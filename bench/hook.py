"""Measure the hook program as a host calls it, against a server that runs: how long each event takes.

`python bench/hook.py SETTINGS`, with the file of an installed host (`recordari status` names the folder).
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from recordari.hosts import hook

EVENTS: dict[str, dict[str, object]] = {
    "start": {},
    "prompt": {"prompt": "Which port does the staging database listen on?"},
    "tool": {"tool_name": "Bash", "tool_input": {"command": "make test"}, "tool_response": {"stdout": "3 passed"}},
    "stop": {"last_assistant_message": "It listens on 6433."},
}
ROUNDS = 20


def main(settings: Path) -> None:
    command = [sys.executable, "-I", "-S", hook.__file__, str(settings)]
    print(f"{'event':8} {'p50 ms':>8} {'p95 ms':>8} {'CPU ms':>8}")
    for event, given in [("(python)", None), *EVENTS.items()]:
        times, before = [], resource.getrusage(resource.RUSAGE_CHILDREN)
        for number in range(ROUNDS):
            line = json.dumps({"session_id": f"bench-{number}", "cwd": str(Path.cwd()), **(given or {})})
            run = [sys.executable, "-I", "-S", "-c", "pass"] if given is None else [*command, event]
            started = time.perf_counter()
            subprocess.run(run, input=line.encode(), stdout=subprocess.DEVNULL, check=True)
            times.append((time.perf_counter() - started) * 1000)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cpu = spent / ROUNDS * 1000
        print(f"{event:8} {statistics.median(times):8.0f} {sorted(times)[int(ROUNDS * 0.95) - 1]:8.0f} {cpu:8.0f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
