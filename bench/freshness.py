"""How soon what was written is found: by keyword, and by meaning.

    python bench/freshness.py [--profile best] [--writes 100]

Each write is remembered by one client while another asks, in words that the text does not contain, whether its vector is there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from recordari.app import Memory
from recordari.config import Settings

RESULTS = Path(__file__).parent / "results"


async def measure(settings: Settings, writes: int) -> dict[str, list[float]]:
    """Milliseconds from the call of `remember` until the item is found, for each write."""
    found: dict[str, list[float]] = {"remember": [], "by keyword": [], "by meaning": []}
    async with Memory.open(user="ana", session="s", settings=settings) as memory:
        await memory.remember("warm up")
        while (await memory.recall("warm up")).degraded:
            await asyncio.sleep(0.01)
        for number in range(writes):
            started = time.perf_counter()
            kept = await memory.remember(f"parcel {number} went to the harbour at dawn")
            found["remember"].append((time.perf_counter() - started) * 1000)
            answer = await memory.recall(f"parcel {number}", top_k=20)
            assert kept.id in {item.id for item in answer.items}
            found["by keyword"].append((time.perf_counter() - started) * 1000)
            while (await memory.recall("shipments", top_k=1)).degraded:
                await asyncio.sleep(0.001)
            found["by meaning"].append((time.perf_counter() - started) * 1000)
    return found


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--profile", choices=["best", "fast"], default="best")
    parser.add_argument("--writes", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        found = asyncio.run(
            measure(Settings(home=Path(folder) / "home", embedding_profile=arguments.profile), arguments.writes)
        )
    table = Table(
        title=f"milliseconds after the call of remember, profile {arguments.profile}, {arguments.writes} writes"
    )
    for column in ("", "p50", "p95", "max"):
        table.add_column(column, justify="right" if column else "left")
    report = {}
    for name, times in found.items():
        times.sort()
        report[name] = {"p50": times[len(times) // 2], "p95": times[int(len(times) * 0.95)], "max": times[-1]}
        table.add_row(name, *(f"{value:.1f}" for value in report[name].values()))
    Console().print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "freshness.json").write_text(json.dumps({"profile": arguments.profile, **report}, indent=1))


if __name__ == "__main__":
    main()
