"""What a contestant of `bench/peers.py` must be able to do, and the loop that drives it over JSON lines.

It runs in the environment of the peers as well as in ours, so it needs nothing but Python and numpy. Orders come in
by standard input, one JSON object a line; each is answered by one line. Whatever a library prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

TOP_K = 10


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; `passage` is its text with date and speaker, as peers are given it."""

    ref: str
    session: str
    speaker: str
    content: str
    at: str
    passage: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation, and what is asked about it."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[str, ...]


class Vectors:
    """Every vector that is needed, computed beforehand by the same embedder for all."""

    def __init__(self, folder: Path) -> None:
        self.matrix = np.load(folder / "vectors.npy", mmap_mode="r")
        texts = json.loads((folder / "texts.json").read_text())
        self.passages: dict[str, int] = texts["passages"]
        self.queries: dict[str, int] = texts["queries"]

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return int(self.matrix.shape[1])

    def list_of(self, text: str) -> list[float]:
        """The vector of a text as a list, a question before a passage: what peers' drivers send to PostgreSQL."""
        row = self.queries.get(text)
        found: list[float] = self.matrix[self.passages[text] if row is None else row].tolist()
        return found


class Contestant(ABC):
    """A memory system under test. A space is a store of its own, so that a round starts empty."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        self.dsn = dsn
        self.vectors = Vectors(folder)
        found = json.loads((folder / "conversations.json").read_text())
        self.conversations = [
            Conversation(one["name"], tuple(Turn(**turn) for turn in one["turns"]), tuple(one["questions"]))
            for one in found
        ]

    @abstractmethod
    async def start(self) -> None:
        """Connect."""

    @abstractmethod
    async def stop(self) -> None:
        """Leave nothing behind."""

    @abstractmethod
    async def open_space(self, space: str) -> None:
        """Make an empty store; not timed."""

    @abstractmethod
    async def close_space(self, space: str) -> None:
        """Give up its connections; not timed."""

    @abstractmethod
    async def ingest(self, space: str, conversation: Conversation) -> None:
        """Store a whole conversation by the fastest way that the API offers."""

    @abstractmethod
    async def add(self, space: str, owner: str, turn: Turn) -> None:
        """Store one turn; durable when it returns."""

    @abstractmethod
    async def settle(self, space: str, owners: Sequence[str]) -> None:
        """Wait until everything stored can be found by meaning."""

    @abstractmethod
    async def search(self, space: str, owner: str, question: str) -> list[str]:
        """The refs of the ten best turns."""

    async def serve(self, space: str, asked: Sequence[tuple[str, str]], clients: int) -> None:
        """Answer all questions with so many clients at once."""
        waiting = iter(asked)

        async def client() -> None:
            for owner, question in waiting:
                await self.search(space, owner, question)

        await asyncio.gather(*(client() for _ in range(clients)))

    def remarks(self) -> dict[str, Any]:
        """What the report should mention."""
        return {}


class BlockingContestant(Contestant):
    """A contestant whose API blocks and stores a vector with its text: clients are threads, nothing settles later."""

    @abstractmethod
    def find(self, space: str, owner: str, question: str) -> list[str]:
        """The refs of the ten best turns."""

    async def settle(self, space: str, owners: Sequence[str]) -> None:
        """There is nothing to wait for."""

    async def search(self, space: str, owner: str, question: str) -> list[str]:
        """Ask in this thread: nothing else runs."""
        return self.find(space, owner, question)

    async def serve(self, space: str, asked: Sequence[tuple[str, str]], clients: int) -> None:
        """Answer with a thread for each client."""
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(lambda one: self.find(space, *one), asked))


async def _obey(contestant: Contestant, order: dict[str, Any]) -> dict[str, Any]:
    """Carry out one order; times are in milliseconds, and the first call is not counted: the process had to wake up."""
    space = order.get("space", "")
    match order["do"]:
        case "open":
            await contestant.open_space(space)
        case "close":
            await contestant.close_space(space)
        case "ingest":
            chosen = [contestant.conversations[place] for place in order["conversations"]]
            started = time.perf_counter()
            for conversation in chosen:
                await contestant.ingest(space, conversation)
            await contestant.settle(space, [one.name for one in chosen])
            return {"seconds": time.perf_counter() - started, "turns": sum(len(one.turns) for one in chosen)}
        case "add":
            turns = contestant.conversations[order["conversation"]].turns[order["start"] : order["end"]]
            await contestant.add(space, "added", turns[0])
            times = []
            for turn in turns[1:]:
                started = time.perf_counter()
                await contestant.add(space, "added", turn)
                times.append((time.perf_counter() - started) * 1000)
            started = time.perf_counter()
            await contestant.settle(space, ["added"])
            return {"times": times, "settled": (time.perf_counter() - started) * 1000}
        case "add_to":
            times = []
            for place, number in order["added"]:
                conversation = contestant.conversations[place]
                turn = conversation.turns[number]
                started = time.perf_counter()
                await contestant.add(space, conversation.name, replace(turn, ref=f"{turn.ref}-{time.time_ns()}"))
                times.append((time.perf_counter() - started) * 1000)
            return {"times": times[1:]}
        case "search":
            times, found = [], []
            await contestant.search(space, *order["asked"][-1])
            for owner, question in order["asked"]:
                started = time.perf_counter()
                found.append(await contestant.search(space, owner, question))
                times.append((time.perf_counter() - started) * 1000)
            return {"times": times, "found": found}
        case "serve":
            asked = [(owner, question) for owner, question in order["asked"]]
            started, busy = time.perf_counter(), time.process_time()
            await contestant.serve(space, asked, order["clients"])
            return {"seconds": time.perf_counter() - started, "busy": time.process_time() - busy}
        case "remarks":
            return contestant.remarks()
    return {}


async def _loop(contestant: Contestant, answers: int) -> None:
    await contestant.start()
    try:
        os.write(answers, b'{"ready": true}\n')
        while line := await asyncio.to_thread(sys.stdin.readline):
            answer = await _obey(contestant, json.loads(line))
            os.write(answers, json.dumps(answer).encode() + b"\n")
    finally:
        await contestant.stop()


def main(kind: type[Contestant]) -> None:
    """Run a contestant: `driver.py FOLDER DSN`."""
    answers = os.dup(1)
    os.dup2(2, 1)
    contestant = kind(Path(sys.argv[1]), sys.argv[2])
    gc.freeze()  # the turns and questions are the bench's, and not what a contestant would have to look through
    asyncio.run(_loop(contestant, answers))
