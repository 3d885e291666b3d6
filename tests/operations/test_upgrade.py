"""`recordari db upgrade`: the embedded database on another major version of PostgreSQL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.folders import open_folder

from recordari.app import Memory
from recordari.config import Settings
from recordari.db.embedded.data import upgrade_mark
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import ConfigurationError, Conflict, DatabaseUnavailable
from recordari.operations.maintenance import upgrade_postgres

OLD = os.environ.get("RECORDARI_TEST_OLD_POSTGRES")


@pytest.fixture
def home() -> Iterator[Path]:
    folder = open_folder("recordari-upgrade-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def server(home: Path) -> Iterator[EmbeddedServer]:
    """A database with a word in it."""
    server = EmbeddedServer(home / "postgres")
    server.acquire()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 'word' AS said")
    server.release()
    yield server
    server.release()
    server.stop("immediate")


def said(server: EmbeddedServer) -> object:
    server.acquire()
    with psycopg.connect(server.dsn()) as connection:
        row = connection.execute("SELECT said FROM kept").fetchone()
    server.release()
    return row and row[0]


def written_by(server: EmbeddedServer, major: int) -> None:
    """Let the data look as if another version had made it."""
    (server.data_dir / "PG_VERSION").write_text(f"{major}\n")


def programs_that_fail(folder: Path, major: int) -> Path:
    folder.mkdir()
    program = folder / "postgres"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "postgres (PostgreSQL) {major}.1" || exit 1\n')
    program.chmod(0o755)
    return folder


async def test_data_of_the_installed_version_stays_as_it_is(home: Path, server: EmbeddedServer) -> None:
    assert await upgrade_postgres(Settings(home=home)) is None
    assert said(server) == "word"


async def test_without_the_old_programs_it_says_what_to_install(home: Path, server: EmbeddedServer) -> None:
    written_by(server, 13)
    with pytest.raises(ConfigurationError, match=r"postgresql-13-pgvector.*--from"):
        await upgrade_postgres(Settings(home=home))
    written_by(server, 18)
    assert said(server) == "word"


async def test_a_database_that_runs_is_left_alone(home: Path, server: EmbeddedServer) -> None:
    server.acquire()
    written_by(server, 17)
    with pytest.raises(Conflict, match="recordari db stop"):
        await upgrade_postgres(Settings(home=home), programs_that_fail(home / "old", 17))
    written_by(server, 18)
    server.release()
    assert said(server) == "word"


async def test_when_it_fails_the_old_data_is_back(home: Path, server: EmbeddedServer) -> None:
    written_by(server, 17)
    with pytest.raises(DatabaseUnavailable):
        await upgrade_postgres(Settings(home=home), programs_that_fail(home / "old", 17))
    written_by(server, 18)
    assert said(server) == "word"
    assert sorted(path.name for path in home.iterdir() if path.is_dir()) == ["old", "postgres", "postgres.run"]


async def test_while_data_is_set_aside_nobody_makes_an_empty_database(home: Path, server: EmbeddedServer) -> None:
    server.data_dir.rename(home / "postgres.17")
    upgrade_mark(server.data_dir).write_text("17")
    with pytest.raises(ConfigurationError, match=r"recordari db upgrade. again"):
        server.acquire()
    (home / "postgres.17").rename(server.data_dir)


@pytest.mark.skipif(OLD is None, reason="`make test-upgrade OLD=folder` names the programs of an older PostgreSQL")
async def test_memory_is_there_after_an_upgrade_even_if_it_was_broken_off(home: Path) -> None:
    assert OLD is not None
    old, settings = Path(OLD), Settings(home=home, embedding_profile="fast")
    async with Memory.open(user="ana", settings=settings.model_copy(update={"postgres_bin_dir": old})) as memory:
        await memory.remember_fact("Ana prefers tea, and no sugar")
    major = (home / "postgres" / "PG_VERSION").read_text().strip()
    (home / "postgres").rename(home / f"postgres.{major}")
    upgrade_mark(home / "postgres").write_text(major)
    (home / "postgres.new").mkdir()
    upgraded = await upgrade_postgres(settings, old)
    assert upgraded is not None
    assert (str(upgraded.before), upgraded.kept.name) == (major, f"postgres.{major}")
    async with Memory.open(user="ana", settings=settings) as memory:
        answer = await memory.recall("What does Ana like to drink?")
        assert [item.content for item in answer.items] == ["Ana prefers tea, and no sugar"]
    assert await upgrade_postgres(settings) is None
