"""Ports for servers that cannot choose one themselves, or that must come back to the same one."""

from __future__ import annotations

import os
import random
import socket

# Below the range from which the kernel hands out ports by itself, so that none is given away between the choice and its
# use, or while the server that had it is down.
FIRST, LAST = 20_000, 32_000
PER_WORKER = 1_000
_chance = random.Random()  # not the shared generator: that begins anew with each test


def free_port() -> int:
    """A port of the loopback interface that nobody listens on, out of the part of this worker of the run."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = FIRST + worker * PER_WORKER % (LAST - FIRST)
    for port in _chance.sample(range(first, first + PER_WORKER), PER_WORKER):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no port from {first} on is free")
