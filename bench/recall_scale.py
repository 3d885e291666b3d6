"""Recall at scale: how fast it is, and how complete the search by meaning, for tenants of 200 to 100,000 items.

    python bench/recall_scale.py [--rows 300000 | --million] [--home FOLDER] [--clients 1,16,64] [--questions 200]

The tenants lie among others, 300,000 items in all. In `solo-N` all N items belong to one user; in `team-N` every
user has a hundred of his own beside what all share. Texts, sessions and vectors are made up (words by Zipf's law,
vectors in clusters of few dimensions, as those of real texts are); loading goes past the API, recall through it,
under row-level security. Vectors are given, not computed: add the embedder's time. A folder given by `--home` is
kept, and found full it is used again. Prints a table, writes `bench/results/recall_scale.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from rich.console import Console
from rich.table import Table

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import AskedScope, Identity, Role, Scope, tenant_id_of
from recordari.core.items import Kind
from recordari.db.address import bring_up_to_date, open_address
from recordari.kit.resources import Resources
from recordari.memory import index as memory_index
from recordari.memory.index import derive
from recordari.memory.rules import Indexed
from recordari.models.embedding import Embedders
from recordari.recall import storage as recall_storage
from recordari.recall.search import exact_below
from recordari.recall.storage import Search
from recordari.wiring import open_resources

RESULTS = Path(__file__).parent / "results"
MODEL_ID = "synthetic@1"
DIMENSIONS = 384
LATENT = 48  # vectors of real texts have few dimensions of their own
TOPICS = 400
WORDS = 30_000
SESSION_LENGTH = 20
ITEMS_OF_A_USER = 100
START = datetime(2025, 1, 1, tzinfo=UTC)
CHUNK = 2_000

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One tenant to load: how many items, and whether many users share it."""

    name: str
    rows: int
    team: bool = False
    measured: bool = True


def sizes(rows: int, largest: int) -> list[Size]:
    """The tenants measured, none larger than told, then others until there are `rows` items in all."""
    measured = [Size(name=f"solo-{count}", rows=count) for count in (200, 1_000, 10_000, 100_000)]
    measured += [Size(name=f"team-{count}", rows=count, team=True) for count in (10_000, 100_000)]
    measured = [size for size in measured if size.rows <= largest]
    if rows >= 1_000_000:
        measured.append(Size(name="solo-500000", rows=500_000))
    rest, number = rows - sum(size.rows for size in measured), 0
    while rest > 0:
        count = min(rest, (500, 1_000, 3_000, 8_000)[number % 4])
        measured.append(Size(name=f"other-{number}", rows=count, team=True, measured=False))
        rest, number = rest - count, number + 1
    return measured


class World:
    """Makes texts and vectors of a tenant; the same name makes the same ones."""

    def __init__(self, name: str) -> None:
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        fixed = np.random.default_rng(7)  # words and topics are the same for all tenants
        self.words = _vocabulary()
        self.zipf = np.cumsum(1 / np.arange(1, WORDS + 1) ** 1.05)
        self.zipf /= self.zipf[-1]
        self.topic_words = fixed.integers(50, WORDS, size=(TOPICS, 60))
        self.topics = fixed.normal(size=(TOPICS, LATENT)).astype(np.float32)
        self.projection = fixed.normal(size=(LATENT, DIMENSIONS)).astype(np.float32) / np.sqrt(LATENT)

    def text(self, topic: int) -> str:
        """About forty words: most by frequency, some of the topic."""
        count = int(self.random.integers(15, 65))
        common = np.searchsorted(self.zipf, self.random.random(count))
        special = self.random.choice(self.topic_words[topic], count)
        chosen = np.where(self.random.random(count) < 0.3, special, common)
        return " ".join(self.words[index] for index in chosen.tolist()) + "."

    def sessions(self, items: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Topic and middle of each session of `items` items."""
        count = -(-items // SESSION_LENGTH)
        topics = self.random.integers(0, TOPICS, size=count)
        return topics, self.topics[topics] + 0.5 * self.random.normal(size=(count, LATENT)).astype(np.float32)

    def vectors(self, middles: Vectors, spread: float = 0.6) -> Vectors:
        """A unit vector near each middle."""
        latent = middles + spread * self.random.normal(size=middles.shape).astype(np.float32)
        found = latent @ self.projection + 0.05 * self.random.normal(size=(len(latent), DIMENSIONS)).astype(np.float32)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


@lru_cache(maxsize=1)
def _vocabulary() -> list[str]:
    """Made-up words that a stemmer leaves apart."""
    syllables = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
    chance = random.Random(7)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(chance.choices(syllables, k=chance.choice((2, 3, 3, 4)))) + "k"] = None
    return list(words)


# Loading ------------------------------------------------------------------------------------------------------------


async def load(resources: Resources, owner_dsn: str, wanted: Sequence[Size]) -> None:
    """Fill the database past the API; the text index is made at the end, which is much faster."""
    with psycopg.connect(owner_dsn, autocommit=True) as connection:
        connection.execute("SET search_path = recordari, public; SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off; SET maintenance_work_mem = '512MB'")
        register_vector(connection)
        found = connection.execute("SELECT pg_get_indexdef('items_text'::regclass)").fetchone()
        assert found is not None
        connection.execute("DROP INDEX items_text")
        for size in wanted:
            await _load_tenant(resources, connection, size)
        connection.execute(found[0])
        connection.execute("VACUUM (ANALYZE) items")
        connection.execute("VACUUM (ANALYZE) vectors")


async def _load_tenant(resources: Resources, connection: psycopg.Connection[Any], size: Size) -> None:
    tenant_id = tenant_id_of(size.name)
    world = World(size.name)
    topics, middles = world.sessions(size.rows)
    connection.execute(
        "INSERT INTO tenants (tenant_id, name, embedding_model) VALUES (%s, %s, %s)", [tenant_id, size.name, MODEL_ID]
    )
    for start in range(0, size.rows, CHUNK):
        places = np.arange(start, min(start + CHUNK, size.rows))
        texts = [world.text(int(topics[place // SESSION_LENGTH])) for place in places]
        columns = await derive(resources, [(text, None) for text in texts], language="english")
        rows = [
            _item(size, tenant_id, int(place), text, found)
            for place, text, found in zip(places, texts, columns, strict=True)
        ]
        with connection.cursor().copy(f"COPY items ({', '.join(rows[0])}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(list(row.values()))
        vectors = world.vectors(middles[places // SESSION_LENGTH])
        with connection.cursor().copy(
            "COPY vectors (tenant_id, item_id, model_id, live, kind, scope, user_id, agent_id, session_id, event_time,"
            " embedding) FROM STDIN WITH (FORMAT BINARY)"
        ) as copy:
            copy.set_types(
                ["uuid", "uuid", "text", "bool", "text", "text", "text", "text", "text", "timestamptz", "halfvec"]
            )
            for row, vector in zip(rows, vectors, strict=True):
                keys = ("kind", "scope", "user_id", "agent_id", "session_id", "event_time")
                copy.write_row(
                    (tenant_id, row["item_id"], MODEL_ID, True, *(row[key] for key in keys), HalfVector(vector))
                )


def _item(size: Size, tenant_id: UUID, place: int, text: str, columns: Indexed) -> dict[str, Any]:
    session = place // SESSION_LENGTH
    user = f"user-{place // ITEMS_OF_A_USER}" if size.team else "user-0"
    shared = size.team and session % 7 == 0
    moment = START + timedelta(minutes=place)
    return {
        "tenant_id": tenant_id,
        "item_id": uuid5(tenant_id, str(place)),
        "kind": str(Kind.CHAT_MESSAGE),
        "scope": str(Scope.TENANT if shared else Scope.USER),
        "tier": "recent",
        "user_id": user,
        "agent_id": "helper",
        "session_id": f"session-{session}",
        "source_ref": f"item-{place}",
        "thread": f"session-{session}",
        "position": place % SESSION_LENGTH + 1,
        "content": text,
        "content_hash": uuid5(tenant_id, text).bytes,
        "trust": "user",
        "event_time": moment,
        "valid_at": moment,
        "tsv": columns.tsv,
        "terms": columns.terms,
        "tokens": columns.tokens,
        "traits": columns.traits,
    }


def is_loaded(owner_dsn: str, wanted: Sequence[Size]) -> bool:
    """Whether these tenants are there already."""
    with psycopg.connect(owner_dsn) as connection:
        found = connection.execute("SELECT name FROM recordari.tenants").fetchall()
    return {size.name for size in wanted} <= {name for (name,) in found}


# Asking -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """A question, who asks it, and its vector."""

    text: str
    user: str
    vector: Vectors


def questions(size: Size, count: int) -> list[Question]:
    """Questions about items of the tenant: some of the words of one, and a vector near its session's."""
    world = World(size.name)
    topics, middles = world.sessions(size.rows)
    chance = random.Random(11)
    asked = []
    for place in chance.choices(range(size.rows), k=count):
        session = place // SESSION_LENGTH
        words = world.text(int(topics[session])).rstrip(".").split()
        text = "What about " + " ".join(chance.sample(words, min(8, len(words)))) + f" {place}?"
        user = f"user-{place // ITEMS_OF_A_USER}" if size.team else "user-0"
        asked.append(Question(text, user, world.vectors(middles[session : session + 1], 0.8)[0]))
    return asked


class KnownVectors:
    """An embedder that knows the questions' vectors."""

    model_id = MODEL_ID
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self.vectors: dict[str, Vectors] = {}

    async def embed_query(self, text: str) -> Vectors:
        """The vector noted for the question."""
        return self.vectors[text]

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Passages are loaded with their vectors."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to give back."""


@asynccontextmanager
async def opened(settings: Settings, embedder: KnownVectors) -> AsyncIterator[Resources]:
    """Resources whose questions are embedded by looking them up."""
    async with open_resources(settings) as resources:
        yield replace(resources, embedders=Embedders(embedder, lambda _: None))


def admin(size: Size) -> Identity:
    """The tenant's administrator."""
    return Identity(tenant_id=tenant_id_of(size.name), role=Role.ADMIN)


async def vector_recall(resources: Resources, owner_dsn: str, size: Size, asked: Sequence[Question]) -> float:
    """How much of the exact ten nearest the vector arm finds, as the application, for the user who asks."""
    found, due = 0, 0
    for question in asked:
        identity = admin(size).narrowed(user_id=question.user)
        wanted = Search(
            terms={},
            vector=question.vector,
            model_id=MODEL_ID,
            entity_keys=[],
            interval=None,
            kinds=[str(kind) for kind in Kind],
            scopes=frozenset({AskedScope.TENANT, AskedScope.USER}),
            exact_below=exact_below(size.rows, indexed_from=resources.settings.vector_index_from),
        )
        early = await recall_storage.find_early(resources.database, identity, wanted)
        candidates = await recall_storage.find_candidates(resources.database, identity, wanted, early)
        nearest = {one.item_id for one in candidates if one.vector_rank is not None and one.vector_rank <= 10}
        exact = set(await asyncio.to_thread(_exact, owner_dsn, identity, question.vector))
        found, due = found + len(nearest & exact), due + len(exact)
    return found / due


def _exact(owner_dsn: str, identity: Identity, vector: Vectors) -> Iterator[UUID]:
    with psycopg.connect(owner_dsn) as connection:
        register_vector(connection)
        connection.execute("SET search_path = recordari, public; SET enable_indexscan = off")
        rows = connection.execute(
            "SELECT item_id FROM vectors WHERE tenant_id = %s AND (scope = 'tenant' OR user_id = %s)"
            " ORDER BY embedding::halfvec(384) <#> %s LIMIT 10",
            [identity.tenant_id, identity.user_id, HalfVector(vector)],
        ).fetchall()
    return (row[0] for row in rows)


async def timed(
    resources: Resources, size: Size, asked: Sequence[Question], clients: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of the candidates' queries and of the whole recall, with so many clients at once."""
    database: list[float] = []
    whole: list[float] = []
    waiting = list(asked)

    async def client() -> None:
        while waiting:
            question = waiting.pop()
            memory = Memory(resources, admin(size).narrowed(user_id=question.user))
            started = time.perf_counter()
            answer = await memory.recall(question.text, explain=True)
            whole.append((time.perf_counter() - started) * 1000)
            assert answer.trace is not None and answer.items
            steps = answer.trace["milliseconds"]
            if "early" in steps:
                database.append(steps["early"] - steps["terms"] + steps["candidates"] - steps["prepare"])
            else:  # a small memory is read at once; the question is read meanwhile
                database.append(steps["candidates"])

    await asyncio.gather(*(client() for _ in range(clients)))
    return database, whole


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """The middle one, and the one that 5 % exceed."""
    ordered = sorted(values)
    return round(statistics.median(ordered), 2), round(ordered[int(len(ordered) * 0.95)], 2)


async def measure(
    settings: Settings, owner_dsn: str, wanted: Sequence[Size], *, clients: Sequence[int], count: int
) -> list[dict[str, Any]]:
    """Every measured tenant, first alone, then with many clients."""
    embedder = KnownVectors()
    results: list[dict[str, Any]] = []
    async with opened(settings, embedder) as resources:
        for size in wanted:
            await memory_index.maintain(resources, admin(size))
        for size in (one for one in wanted if one.measured):
            asked = questions(size, count)
            embedder.vectors = {question.text: question.vector for question in asked}
            row: dict[str, Any] = {"tenant": size.name, "rows": size.rows}
            row["recall@10"] = round(await vector_recall(resources, owner_dsn, size, asked), 4)
            await timed(resources, size, asked, 1)  # warms caches and the tenant's view
            for number in clients:
                database, whole = await timed(resources, size, asked, number)
                row[f"database@{number}"] = percentiles(database)
                row[f"recall_ms@{number}"] = percentiles(whole)
            results.append(row)
            Console(stderr=True).print(row)
    return results


async def run(arguments: argparse.Namespace, home: Path) -> list[dict[str, Any]]:
    """Load what is missing, then measure."""
    settings = Settings(home=home, worker=False, pool_max_size=8, pool_timeout=60.0)
    wanted = sizes(1_000_000 if arguments.million else arguments.rows, arguments.largest)
    async with open_address(settings) as address:
        await bring_up_to_date(settings, address)
        assert address.owner_dsn is not None
        if not is_loaded(address.owner_dsn, wanted):
            started = time.perf_counter()
            async with open_resources(settings) as resources:
                await load(resources, address.owner_dsn, wanted)
            Console(stderr=True).print(f"loaded in {time.perf_counter() - started:.0f} s")
        if arguments.load_only:
            return []
        return await measure(settings, address.owner_dsn, wanted, clients=arguments.clients, count=arguments.questions)


def main() -> None:
    """Load, measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000, help="items in all")
    parser.add_argument("--largest", type=int, default=100_000, help="no larger tenant is made")
    parser.add_argument("--million", action="store_true", help="a million items, and a tenant of half a million")
    parser.add_argument("--home", type=Path, help="folder to keep the database in")
    parser.add_argument("--clients", type=lambda text: [int(one) for one in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--questions", type=int, default=200, help="questions for each tenant")
    parser.add_argument("--load-only", action="store_true", help="stop when the data is there")
    arguments = parser.parse_args()
    if arguments.home:
        results = asyncio.run(run(arguments, arguments.home))
    else:
        with tempfile.TemporaryDirectory(prefix="recordari-scale-") as folder:
            Path(folder).chmod(0o755)  # the server may run as another user
            results = asyncio.run(run(arguments, Path(folder)))
    if not results:
        return
    table = Table(title="recall at scale, milliseconds as p50 / p95")
    for column in results[0]:
        table.add_column(column, justify="right")
    for row in results:
        table.add_row(
            *(" / ".join(map(str, value)) if isinstance(value, tuple) else str(value) for value in row.values())
        )
    Console(width=200).print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "recall_scale.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
