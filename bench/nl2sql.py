"""Gold SQL of public questions through `query_data`: is it accepted, and does it give the rows that psql gives.

    python bench/nl2sql.py --data ../shared/data [--safety]

Six PostgreSQL schemas with their data are loaded into a server of their own. Each gold statement runs twice: as it is,
as a plain client would send it, and through the validator and the reader. `--safety` measures the validator on hostile
and harmless statements instead.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from recordari.databases.reader import Limits, read
from recordari.databases.rules.databases import Engine, allowed_tables
from recordari.databases.rules.readonly_sql import check
from recordari.databases.targets import AllowedTargets, checked, read_target
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import RecordariError

FILES = ("questions_gen_postgres.csv", "instruct_basic_postgres.csv")
ALL_ROWS = 1_000_000  # gold answers are compared whole


def gold(data: Path) -> Iterator[tuple[str, str]]:
    """Each gold statement and its schema; `{a,b}` stands for columns of which any will do: all are taken."""
    for name in FILES:
        with (data / name).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if not (data / row["db_name"]).is_dir():
                    continue  # a question about a schema that is not here
                for statement in row["query"].split(";"):
                    if statement.strip():
                        yield row["db_name"], expanded(statement)


def expanded(statement: str) -> str:
    """The statement with its braces filled in."""
    found = re.findall(r"{([^}]+)}", statement)
    chosen = found[0] if found else ""
    return re.sub(r"{([^}]*)}", lambda match: match[1] or chosen, statement)


def canonical(value: Any) -> Any:
    """A value by which texts of psql and values of JSON compare."""
    if isinstance(value, bool):
        return "t" if value else "f"
    try:
        return float(Decimal(str(value))) if value is not None else None
    except InvalidOperation:
        return str(value).lower() if isinstance(value, str) else json.dumps(value)


def rows_of(rows: list[Any]) -> list[str]:
    """Rows in an order of their own, numbers rounded."""

    def rounded(value: Any) -> Any:
        return f"{value:.9g}" if isinstance(value, float) else value

    return sorted(repr([rounded(canonical(value)) for value in row]) for row in rows)


def load(server: EmbeddedServer, data: Path, name: str) -> dict[str, None]:
    """Make a database of that schema; its tables."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(server.dsn(database=name), autocommit=True) as connection:
        connection.execute((data / name / f"{name}.sql").read_bytes())
        connection.execute(
            """DO $$ DECLARE s text; BEGIN
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'reader') THEN CREATE ROLE reader LOGIN; END IF;
                FOR s IN SELECT DISTINCT schemaname FROM pg_tables WHERE schemaname NOT LIKE 'pg%' LOOP
                    EXECUTE format('GRANT USAGE ON SCHEMA %I TO reader', s);
                    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO reader', s);
                END LOOP; END $$"""
        )
        found = connection.execute(
            "SELECT schemaname || '.' || tablename FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        return {row[0]: None for row in found}


def plain(dsn: str, statement: str) -> list[Any] | str:
    """What a client without Recordari gets, as text; or the class of the error."""
    with psycopg.connect(dsn) as connection:
        for oid in {info.oid for info in connection.adapters.types if info.oid}:
            connection.adapters.register_loader(oid, TextLoader)
        try:
            return connection.execute(statement.encode()).fetchall()
        except psycopg.Error as error:
            return type(error).__name__


async def measure_gold(data: Path) -> None:
    """Print how many are accepted, and how many give the same rows."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedServer(Path(folder) / "postgres", settings={"fsync": "off"})
        server.acquire()
        try:
            tables: dict[str, dict[str, None]] = {}
            for name, statement in gold(data):
                if name not in tables:
                    tables[name] = load(server, data, name)
                counts[await compare(server, name, tables[name], statement)] += 1
        finally:
            server.release()
    print(dict(counts))


async def compare(server: EmbeddedServer, name: str, tables: dict[str, None], statement: str) -> str:
    """One statement both ways: what came of it."""
    expected = plain(server.dsn(database=name), statement)
    try:
        query = check(statement, Engine.POSTGRES, allowed_tables(tables, Engine.POSTGRES), max_rows=ALL_ROWS)
    except RecordariError as error:
        print("REFUSED", name, statement, error.message, expected if isinstance(expected, str) else "")
        return "refused" if not isinstance(expected, str) else "fails in both"
    target = await checked(read_target(server.dsn(user="reader", database=name)), AllowedTargets(allow_private=True))
    try:
        (answer,) = await read(target, [query.sql], limits=Limits(rows=ALL_ROWS))
    except RecordariError as error:
        if isinstance(expected, str):
            return "fails in both"
        print("FAILED", name, statement, error.message)
        return "failed"
    if isinstance(expected, str) or rows_of(expected) != rows_of(answer.rows):
        print("DIFFERS", name, statement, "\n   ", query.sql, expected[:3], answer.rows[:3])
        return "differs"
    return "same rows"


def measure_safety(data: Path) -> None:
    """Print how many hostile statements are refused and harmless ones accepted, and the slowest check."""
    allowed = json.loads((data / "allowlist.json").read_text())
    for name in ("unsafe_sql", "safe_sql"):
        counts: Counter[str] = Counter()
        slowest = 0.0
        for line in (data / f"{name}.dev.jsonl").read_text().splitlines():
            row = json.loads(line)
            engine = Engine(row["dialect"])
            tables = allowed_tables(dict.fromkeys(allowed[row["dialect"]]["tables"]), engine)
            begun = time.process_time()
            try:
                check(row["sql"], engine, tables)
                outcome = "accepted"
            except RecordariError:
                outcome = "refused"
            slowest = max(slowest, time.process_time() - begun)
            counts[f"{row['expect']}: {outcome}"] += 1
        print(name, dict(counts), f"slowest {slowest * 1000:.0f} ms")


def main() -> None:
    """Measure what was asked for; without the data, say so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with nl2sql/ and safety/")
    parser.add_argument("--safety", action="store_true", help="measure the validator instead")
    options = parser.parse_args()
    folder = options.data / ("safety" if options.safety else "nl2sql")
    if not folder.is_dir():
        raise SystemExit(f"skipped: {folder} is not there")
    if options.safety:
        measure_safety(folder)
    else:
        asyncio.run(measure_gold(folder))


if __name__ == "__main__":
    main()
