"""Recordari beside other memory systems: the same turns, questions, vectors and PostgreSQL server, in one run.

    python bench/peers.py --data ../shared/data [--conversations 3] [--profile fast] [--questions 200] [--only mem0]

The contestants: Recordari; mem0 with its pgvector store and `infer=False`; LangGraph's PostgresStore with its vector
index; numpy with bm25s in the process, which keeps nothing on disk. Each is a process of its own. They take turns by a
few calls at a time and in changing order, so that a slow moment of the machine hits all alike; the first call of a turn
is not counted, because the machine had put the process aside. Every round stores all conversations anew, and adds to
what then is there; figures are medians over rounds. Vectors are those of the default install, or of the profile asked
for, computed beforehand and looked up by all. The peers get the text with its date and speaker, which helps their
recall. Ingest counts until everything can be found by meaning; an add is durable when it returns, and below the table
stands how long after the last one of a turn all can be found by meaning; "CPU ms" is what the contestant's own process
works for one of the questions of many clients, which says more than a time where others use the machine too. Nobody
takes facts from messages (`infer=False`; for Recordari the tenant's setting `extraction` is off) unless `--facts` lets
Recordari do it.

The peers live in an environment of their own, `.venv-peers`, made at the first run; what cannot be installed is left
out with a message. Prints a table, writes `bench/results/peers.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import psycopg
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.config import Settings
from recordari.db.address import embedded_server
from recordari.evaluation.rules.formats import GoldQuestion, Haystack
from recordari.evaluation.rules.measures import Score
from recordari.memory.rules import PREVIOUS_HEAD, embedded_text
from recordari.wiring import make_embedders

BENCH = Path(__file__).parent
RESULTS = BENCH / "results"
DRIVERS = BENCH / "peers_drivers"
CLIENTS = 8
CHUNK = 20  # calls in a row of one contestant before the next has its turn
ADDS = 200


@dataclass(frozen=True, slots=True)
class Peer:
    """A contestant, and what it needs from PyPI; nothing for ours, which runs in this environment."""

    name: str
    title: str
    packages: tuple[str, ...] = ()
    environment: Path = BENCH.parent / ".venv-peers"

    @property
    def python(self) -> Path:
        """The interpreter of the environment with its packages."""
        return self.environment / "bin" / "python" if self.packages else Path(sys.executable)


PEERS = (
    Peer("recordari", "Recordari"),
    Peer(
        "langgraph", "LangGraph PostgresStore", ("langgraph", "langgraph-checkpoint-postgres", "psycopg[binary,pool]")
    ),
    Peer("mem0", "mem0, pgvector", ("mem0ai", "psycopg[binary,pool]")),
    Peer("numpy", "numpy + bm25s (in process)", ("bm25s", "PyStemmer")),
)


@dataclass(slots=True)
class Figures:
    """What was measured of one contestant, an entry for each round."""

    ingest: list[float] = field(default_factory=list)
    adds: list[list[float]] = field(default_factory=list)
    found_after: list[float] = field(default_factory=list)
    searches: list[list[float]] = field(default_factory=list)
    served: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    score: Score = field(default_factory=Score)

    def summary(self) -> dict[str, float]:
        """Medians over the rounds."""
        return {
            "ingest_turns_per_second": statistics.median(self.ingest),
            "add_p50_ms": statistics.median(_quantile(one, 0.5) for one in self.adds),
            "add_p95_ms": statistics.median(_quantile(one, 0.95) for one in self.adds),
            "found_after_ms": statistics.median(self.found_after),
            "search_p50_ms": statistics.median(_quantile(one, 0.5) for one in self.searches),
            "search_p95_ms": statistics.median(_quantile(one, 0.95) for one in self.searches),
            "served_per_second": statistics.median(self.served),
            "client_cpu_ms": statistics.median(self.busy),
            "recall@10": self.score.means()["recall@10"],
        }


def _quantile(values: Sequence[float], part: float) -> float:
    return float(np.quantile(values, part))


class Process:
    """A contestant at work: orders go in and answers come out, a line each."""

    def __init__(self, peer: Peer, folder: Path, dsn: str, environment: dict[str, str]) -> None:
        self.peer = peer
        self.figures = Figures()
        self._log: IO[bytes] = (folder / f"{peer.name}.log").open("w+b")
        self._process = subprocess.Popen(
            [str(peer.python), str(DRIVERS / f"{peer.name}_driver.py"), str(folder), dsn],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **environment},
        )
        self._answer()

    def order(self, do: str, **more: Any) -> dict[str, Any]:
        """Give an order and wait until it is carried out."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended, and reading its answer says why
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(30)
            self._log.seek(0)
            raise RuntimeError(f"{self.peer.title} ended:\n{self._log.read().decode()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def install(peer: Peer, console: Console) -> bool:
    """Put a peer into the environment of the peers; False, with a message, when that cannot be done."""
    if not peer.packages:
        return True
    marker = peer.environment / f".installed-{peer.name}"
    if marker.exists():
        return True
    if not peer.python.exists():
        venv.create(peer.environment, with_pip=True)
    console.print(f"installing {', '.join(peer.packages)} into {peer.environment.name}")
    command = [
        str(peer.python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "numpy",
    ]
    done = subprocess.run([*command, *peer.packages], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        console.print(f"[yellow]{peer.title} is left out: it could not be installed.[/] {done.stderr.strip()[-300:]}")
        return False
    marker.touch()
    return True


def write_work(folder: Path, stores: Sequence[Haystack]) -> tuple[list[str], list[str]]:
    """Write the turns and questions for the contestants; every passage and question that may be embedded."""
    conversations: list[dict[str, Any]] = []
    passages: list[str] = []
    queries: list[str] = []
    for store in stores:
        turns, before = [], None
        for turn in store.turns:
            assert turn.event_time is not None
            same = before is not None and before.session_id == turn.session_id
            alone = embedded_text(turn.content, speaker=turn.speaker, event_time=turn.event_time)
            followed = embedded_text(
                turn.content,
                speaker=turn.speaker,
                event_time=turn.event_time,
                previous_speaker=before.speaker if same and before else None,
                previous_head=before.content[:PREVIOUS_HEAD] if same and before else None,
            )
            passages += [alone, followed]
            turns.append(
                {
                    "ref": turn.source_ref,
                    "session": turn.session_id,
                    "speaker": turn.speaker,
                    "content": turn.content,
                    "at": turn.event_time.isoformat(),
                    "passage": alone,
                }
            )
            before = turn
        asked = [one.text for one in store.with_evidence]
        queries += asked
        conversations.append({"name": store.name, "turns": turns, "questions": asked})
    (folder / "conversations.json").write_text(json.dumps(conversations))
    return list(dict.fromkeys(passages)), list(dict.fromkeys(queries))


async def write_vectors(folder: Path, cache: Path, settings: Settings, passages: list[str], queries: list[str]) -> str:
    """Embed everything once; vectors of an earlier run are taken again. The model's id."""
    embedders = make_embedders(settings)
    embedder = embedders.primary
    assert embedder is not None
    try:
        known = cache / f"{embedder.model_id.replace('/', '_')}.npz"
        texts = np.array([f"q{text}" for text in queries] + [f"p{text}" for text in passages])
        stored = np.load(known) if known.exists() else None
        if stored is not None and np.array_equal(stored["texts"], texts):
            matrix = stored["matrix"]
        else:
            asked = np.array([await embedder.embed_query(text) for text in queries])
            matrix = np.concatenate([asked, await embedder.embed_passages(passages)]).astype(np.float32)
            np.savez(known, texts=texts, matrix=matrix)
    finally:
        await embedders.close()
    np.save(folder / "vectors.npy", matrix)
    places = {
        "queries": {text: place for place, text in enumerate(queries)},
        "passages": {text: len(queries) + place for place, text in enumerate(passages)},
    }
    (folder / "texts.json").write_text(json.dumps(places))
    return embedder.model_id


def tidy(dsn: str) -> None:
    """Vacuum and analyse every database: no contestant shall meet a planner without statistics."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        names = connection.execute(
            "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate"
        ).fetchall()
    for (name,) in names:
        with psycopg.connect(make_conninfo(dsn, dbname=name), autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")


def turns_of(processes: Sequence[Process], number: int) -> list[Process]:
    """The contestants in an order that changes with the number."""
    shift = number % len(processes)
    return [*processes[shift:], *processes[:shift]]


def ask_all(process: Process, stores: Sequence[Haystack]) -> None:
    """Ask every question once: recall, and warm caches."""
    asked: list[tuple[str, GoldQuestion]] = [(store.name, one) for store in stores for one in store.with_evidence]
    answer = process.order("search", space="main", asked=[(name, one.text) for name, one in asked])
    for (_, one), found in zip(asked, answer["found"], strict=True):
        process.figures.score.add(found, one.evidence)


def measure_round(processes: Sequence[Process], number: int, stores: Sequence[Haystack], questions: int) -> None:
    """Ingest, add, search and serve once with every contestant."""
    space = f"round{number}"
    for process in turns_of(processes, number):
        process.order("open", space=space)
        done = process.order("ingest", space=space, conversations=list(range(len(stores))))
        process.figures.ingest.append(done["turns"] / done["seconds"])
    added: dict[str, list[dict[str, Any]]] = {process.peer.name: [] for process in processes}
    for start in range(0, ADDS, CHUNK):
        for process in turns_of(processes, start // CHUNK):
            more = {"conversation": len(stores) - 1, "start": start, "end": start + CHUNK}
            added[process.peer.name].append(process.order("add", space=space, **more))
    every = [(store.name, one.text) for store in stores for one in store.with_evidence]
    asked = every[:: max(1, len(every) // questions)][:questions]
    searched: dict[str, list[float]] = {process.peer.name: [] for process in processes}
    for start in range(0, len(asked), CHUNK):
        for process in turns_of(processes, start // CHUNK):
            answer = process.order("search", space="main", asked=asked[start : start + CHUNK])
            searched[process.peer.name] += answer["times"]
    for process in turns_of(processes, number):
        figures, adds = process.figures, added[process.peer.name]
        figures.adds.append([one for chunk in adds for one in chunk["times"]])
        figures.found_after += [chunk["settled"] for chunk in adds]
        figures.searches.append(searched[process.peer.name])
        done = process.order("serve", space="main", asked=asked, clients=CLIENTS)
        figures.served.append(len(asked) / done["seconds"])
        figures.busy.append(done["busy"] * 1000 / len(asked))
        process.order("close", space=space)


def table(title: str, processes: Sequence[Process]) -> Table:
    """The figures side by side."""
    drawn = Table(title=title)
    for column in ("", "ingest/s", "add p50", "p95 ms", "search p50", "p95 ms", f"qps, {CLIENTS} clients", "CPU ms",
                   "recall@10"):  # fmt: skip
        drawn.add_column(column, justify="right" if column else "left")
    for process in processes:
        found = process.figures.summary()
        drawn.add_row(
            process.peer.title,
            f"{found['ingest_turns_per_second']:,.0f}",
            f"{found['add_p50_ms']:.2f}",
            f"{found['add_p95_ms']:.2f}",
            f"{found['search_p50_ms']:.2f}",
            f"{found['search_p95_ms']:.2f}",
            f"{found['served_per_second']:,.0f}",
            f"{found['client_cpu_ms']:.2f}",
            f"{found['recall@10']:.3f}",
        )
    return drawn


@contextmanager
def workshop(home: Path) -> Iterator[Path]:
    """A folder for this run alone, removed afterwards; open to the user that the embedded server runs under."""
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=home))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(arguments: argparse.Namespace) -> None:
    """Measure every contestant, print the table and write it down."""
    console = Console(width=130)
    chosen = [one for one in PEERS if not arguments.only or one.name in {"recordari", *arguments.only}]
    peers = [one for one in chosen if install(one, console)]
    stores = haystacks("locomo", arguments.data)[: arguments.conversations]
    with ExitStack() as stack:
        folder = stack.enter_context(workshop(arguments.home))
        settings = Settings(home=folder, embedding_profile=arguments.profile)
        passages, queries = write_work(folder, stores)
        model = asyncio.run(write_vectors(folder, arguments.home, settings, passages, queries))
        server = embedded_server(settings)
        server.acquire()
        stack.callback(server.release)
        processes: list[Process] = []
        for peer in peers:
            environment = {"PEERS_HOME": str(folder), "PEERS_PROFILE": arguments.profile}
            environment |= {"PEERS_FACTS": "1"} if arguments.facts else {}
            processes.append(Process(peer, folder, server.dsn(), environment))
            stack.callback(processes[-1].close)
        for process in processes:
            process.order("open", space="main")
            process.order("ingest", space="main", conversations=list(range(len(stores))))
        tidy(server.dsn())
        for process in processes:
            ask_all(process, stores)
        for number in range(arguments.rounds):
            measure_round(processes, number, stores, arguments.questions)
            console.print(f"round {number + 1} of {arguments.rounds} done, load {os.getloadavg()[0]:.1f}")
        turns = sum(len(store.turns) for store in stores)
        title = f"LoCoMo, {len(stores)} conversations, {turns:,} turns, {model}"
        console.print(table(title, processes))
        for process in processes:
            after = process.figures.summary()["found_after_ms"]
            console.print(f"{process.peer.title}: found by meaning {after:.1f} ms after the last add")
        report = {
            "model": model,
            "turns": turns,
            "questions": processes[0].figures.score.questions,
            "rounds": arguments.rounds,
            "facts": arguments.facts,
            "load": os.getloadavg()[0],
            "contestants": {one.peer.name: {**one.figures.summary(), **one.order("remarks")} for one in processes},
        }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "peers.json").write_text(json.dumps(report, indent=1))
    console.print("written to bench/results/peers.json")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-peers"), help="vectors are kept here")
    parser.add_argument("--profile", choices=["best", "fast"], default="best")
    parser.add_argument("--conversations", type=int, default=None, help="only the first ones")
    parser.add_argument("--questions", type=int, default=200, help="questions for timing; recall asks all")
    parser.add_argument(
        "--facts", action="store_true", help="Recordari also takes facts from messages, which no peer does"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", nargs="*", choices=[one.name for one in PEERS[1:]], help="these peers beside Recordari"
    )
    run(parser.parse_args())


if __name__ == "__main__":
    main()
