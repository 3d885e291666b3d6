"""Many HTTP clients in one small process: plain asyncio protocols that parse no more of an answer than they must.

The clients share the machine with the server that they load, so each costs as little as possible. One process prints one
JSON line: how many answers of each status, connections cut, seconds of each served answer, and its own CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RETRY = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)
WORDS = "tea coffee boat river garden piano train winter market letter bridge island lemon window paper violin".split()


@dataclass
class Tally:
    """What a crowd has seen."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    cuts: int = 0
    events: int = 0


def posted(path: str, key: str, body: object) -> bytes:
    """A POST request, ready to be sent."""
    text = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nRecordari-User: ana\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


def requests(key: str, *, one_write_in: int, seed: int) -> Iterator[bytes]:
    """Recalls, and a new fact now and then, always in the same order for the same seed."""
    number = seed
    while True:
        number += 1
        first, second = WORDS[number % 16], WORDS[number * 7 % 13]
        if one_write_in and number % one_write_in == 0:
            yield posted("/v1/items", key, {"kind": "fact", "content": f"Ana saw {first} {number} near the {second}"})
        else:
            yield posted("/v1/recall", key, {"query": f"Where did Ana see {first} and {second}?", "top_k": 5})


class Client(asyncio.Protocol):
    """One client: a request, its answer, the next request; polite if it waits for as long as `Retry-After` says."""

    def __init__(self, tally: Tally, sent: Iterator[bytes], *, polite: bool, pause: float, end: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._tally, self._sent, self._polite, self._pause, self._end = tally, sent, polite, pause, end
        self._answer = bytearray()
        self._needed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def leave(self) -> None:
        """Send nothing more."""
        self._end = 0.0
        self._transport.close()

    def _send(self) -> None:
        if self._loop.time() >= self._end:
            self._transport.close()
        elif not self._transport.is_closing():
            self._started = self._loop.time()
            self._transport.write(next(self._sent))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if not self._needed:
            end = self._answer.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._answer, 0, end + 2)
            self._needed = end + 4 + (int(length[1]) if length else 0)
        if len(self._answer) < self._needed:
            return
        status, retry = int(self._answer[9:12]), _RETRY.search(self._answer, 0, self._needed)
        self._answer, self._needed = bytearray(), 0
        self._tally.statuses[status] += 1
        if status < 300:
            self._tally.seconds.append(self._loop.time() - self._started)
        pause = float(retry[1]) if retry and self._polite else self._pause
        if pause:
            self._loop.call_later(pause, self._send)
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._loop.time() < self._end:
            self._tally.cuts += 1
            self._returning = self._loop.create_task(self._again())

    async def _again(self) -> None:
        await connected(lambda: self, self._tally, self._end)


class Stalled(asyncio.Protocol):
    """A client that never finishes the head of its request, and sends a byte of it now and then."""

    def __init__(self, tally: Tally, *, dripping: bool) -> None:
        self._tally, self._dripping = tally, dripping
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._started = transport, self._loop.time()
        if self._dripping:
            transport.write(b"GET /v1/whoami HTTP/1.1\r\n")
            self._drip()

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"X")
            self._loop.call_later(1.0, self._drip)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.cuts += 1
        self._tally.seconds.append(self._loop.time() - self._started)


class Follower(asyncio.Protocol):
    """A listener of the change feed; it counts events, and can stop to read."""

    def __init__(self, tally: Tally, key: str, *, reads: bool) -> None:
        self.tally, self._key, self._reads = tally, key, reads
        self._rest = b""
        self.opened = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(
            f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._key}\r\n"
            "Accept: text/event-stream\r\n\r\n".encode()
        )
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            if not data.startswith(b"HTTP/"):
                return  # the body of a refusal
            status, retry = int(data[9:12]), _RETRY.search(data)
            self.tally.statuses[status] += 1
            if retry:
                asyncio.get_running_loop().call_later(float(retry[1]), self.connection_made, self._transport)
                return
            self.opened.set_result(status)
            if not self._reads:
                self._transport.pause_reading()
        data = self._rest + data
        self.tally.events += data.count(b"\ndata: ")
        self._rest = data[-6:] if b"\ndata: " not in data[-6:] else b""

    def connection_lost(self, exc: Exception | None) -> None:
        self.tally.cuts += 1
        if not self.opened.done():
            self.opened.set_result(0)


ADDRESS: dict[str, int] = {"port": 0}


async def connected(make: Callable[[], asyncio.Protocol], tally: Tally, end: float = float("inf")) -> None:
    """Connect, again and again while the server does not answer."""
    loop = asyncio.get_running_loop()
    while loop.time() < end:
        try:
            await loop.create_connection(make, "127.0.0.1", ADDRESS["port"])
        except OSError:
            tally.statuses[0] += 1
            await asyncio.sleep(0.1)
        else:
            return


async def crowd(arguments: argparse.Namespace) -> Tally:
    """Clients that send requests until the time is up."""
    tally, end = Tally(), asyncio.get_running_loop().time() + arguments.seconds
    for number in range(arguments.clients):
        sent = requests(arguments.key, one_write_in=arguments.one_write_in, seed=arguments.seed + number * 1_000_003)

        def make(sent: Iterator[bytes] = sent) -> Client:
            return Client(tally, sent, polite=arguments.polite, pause=arguments.pause, end=end)

        await connected(make, tally, end)
    await asyncio.sleep(max(0.0, end - asyncio.get_running_loop().time()) + 0.2)
    return tally


async def stalled(arguments: argparse.Namespace) -> Tally:
    """Clients that never finish a request; half of them send a byte each second."""
    tally, loop = Tally(), asyncio.get_running_loop()
    for number in range(arguments.clients):
        await connected(lambda number=number: Stalled(tally, dripping=number % 2 == 0), tally)  # type: ignore[misc]
    end = loop.time() + arguments.seconds
    while tally.cuts < arguments.clients and loop.time() < end:
        await asyncio.sleep(0.1)
    return tally


async def followers(arguments: argparse.Namespace) -> Tally:
    """Listeners of the change feed; says `open` when all are, and counts until standard input ends."""
    tally = Tally()
    made: list[Follower] = []

    def make() -> Follower:
        made.append(Follower(tally, arguments.key, reads=not arguments.unread))
        return made[-1]

    await asyncio.gather(*(connected(make, tally) for _ in range(arguments.clients)))
    await asyncio.gather(*(one.opened for one in made))
    print(json.dumps({"open": tally.statuses[200]}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    return tally


ROLES = {"crowd": crowd, "stalled": stalled, "followers": followers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", default="")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--polite", action="store_true")
    parser.add_argument("--unread", action="store_true")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--one-write-in", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nice", type=int, default=0)
    arguments = parser.parse_args()
    os.nice(arguments.nice)
    ADDRESS["port"] = arguments.port
    tally = asyncio.run(ROLES[arguments.role](arguments))
    print(
        json.dumps(
            {
                "statuses": tally.statuses,
                "seconds": sorted(round(one, 5) for one in tally.seconds),
                "cuts": tally.cuts,
                "events": tally.events,
                "cpu": round(time.process_time(), 2),
            }
        )
    )


if __name__ == "__main__":
    main()
