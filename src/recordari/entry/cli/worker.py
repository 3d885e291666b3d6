"""`recordari worker`: background work in a process of its own."""

from __future__ import annotations

import asyncio
import signal

from recordari.config import Settings
from recordari.kit.commands import read_settings
from recordari.kit.output import print_note
from recordari.wiring import open_resources
from recordari.worker.runner import run_worker


def worker() -> None:
    """Run background work until it is told to stop (Ctrl-C or SIGTERM), and finish what is under way."""
    asyncio.run(_work(read_settings(quiet=False)))


async def _work(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_resources(settings) as resources:
        print_note("worker started; Ctrl-C stops it")
        await run_worker(resources, stop)
