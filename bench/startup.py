"""Measure what starting costs: imports, `--help`, the first and later starts of the server, and its memory.

CPU time is that of the process and of what it waited for; wall time runs until `/healthz` answers. The first
start makes the database and its schema in a new folder, the later ones find them there.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

PROGRAM = Path(sys.executable).with_name("recordari")
RESULTS = Path(__file__).with_name("results")
READY_SECONDS = 120.0


def cpu_seconds(command: list[str], runs: int) -> float:
    """Run a command some times, and return the least CPU time: noise only adds."""
    figures = []
    for _ in range(runs):
        before = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        user, system = (
            after.children_user - before.children_user,
            after.children_system - before.children_system,
        )
        figures.append(user + system)
    return min(figures)


def start_server(home: Path) -> tuple[subprocess.Popen[str], str, float]:
    """Start the server on a home; the process, its address, and the seconds until it answered."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECORDARI_")}
    started = time.perf_counter()
    process = subprocess.Popen(
        [PROGRAM, "serve", "--port", "0"],
        env={**kept, "RECORDARI_HOME": str(home), "RECORDARI_LOG_LEVEL": "warning"},
        cwd=home,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = next((line.split()[-1] for line in process.stdout if "listens on" in line), None)
    if url is None:
        raise SystemExit("the server did not start")
    while time.perf_counter() - started < READY_SECONDS:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                return process, url, time.perf_counter() - started
        except urllib.error.URLError:
            time.sleep(0.01)
    raise SystemExit("the server started and does not answer")


def stop_server(process: subprocess.Popen[str]) -> float:
    """Stop the server; the seconds it took."""
    started = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    return time.perf_counter() - started


def resident_megabytes(pid: int) -> float | None:
    """Read the proportional set size of a process, where the system tells."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def measure_server(later_starts: int) -> dict[str, float | None]:
    """Start a server on a new home, then again on the same one."""
    home = Path(tempfile.mkdtemp(prefix="recordari-startup-"))
    home.chmod(0o755)  # as root the database runs under another account, which must pass through
    try:
        process, _, first = start_server(home)
        time.sleep(1.0)
        memory = resident_megabytes(process.pid)
        stops = [stop_server(process)]
        later = []
        for _ in range(later_starts):
            process, _, seconds = start_server(home)
            later.append(seconds)
            stops.append(stop_server(process))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return {
        "first_start_seconds": first,
        "later_start_seconds": statistics.median(later),
        "stop_seconds": statistics.median(stops),
        "server_memory_megabytes": memory,
    }


# figure → what it is, its unit and its limit (design figures; None: reported only)
ROWS: dict[str, tuple[str, str, float | None]] = {
    "import_cpu_seconds": ("import recordari, CPU", "s", 0.25),
    "help_cpu_seconds": ("recordari --help, CPU", "s", 0.30),
    "first_start_seconds": ("first serve → ready", "s", 10.0),
    "later_start_seconds": ("later serve → ready", "s", 3.0),
    "stop_seconds": ("SIGTERM → gone", "s", None),
    "server_memory_megabytes": ("memory of the idle server process", "MB", 400.0),
}


def main() -> None:
    """Measure, print a table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each command (default 5)")
    parser.add_argument("--later-starts", type=int, default=3, help="starts on the existing home (default 3)")
    chosen = parser.parse_args()
    steps: list[Callable[[], dict[str, float | None]]] = [
        lambda: {"import_cpu_seconds": cpu_seconds([sys.executable, "-c", "import recordari"], chosen.runs)},
        lambda: {"help_cpu_seconds": cpu_seconds([str(PROGRAM), "--help"], chosen.runs)},
        lambda: measure_server(chosen.later_starts),
    ]
    figures = {name: value for step in steps for name, value in step().items()}
    table = Table("what", "found", "limit")
    for name, (what, unit, limit) in ROWS.items():
        value = figures[name]
        style = "red" if value is not None and limit is not None and value > limit else ""
        found = "unknown" if value is None else f"{value:.2f} {unit}"
        table.add_row(what, found, "" if limit is None else f"{limit:g} {unit}", style=style)
    Console(highlight=False).print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "startup.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
