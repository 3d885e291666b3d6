"""Migrations under faults: two starters, and one that is killed at every step."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.patience import PATIENCE
from tests.stored import drop_database

from recordari.db import migrate
from recordari.db.address import APP_LOGIN
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import ConfigurationError

pytestmark = pytest.mark.faults

MIGRATE = """
import asyncio, os, psycopg, sys
from recordari.db import migrate
die_before = int(sys.argv[3])
execute, recorded = psycopg.AsyncConnection.execute, 0
async def counted(connection, statement, *parameters, **options):
    global recorded
    if statement == migrate.queries.record.sql:
        recorded += 1
        if recorded == die_before:
            # In the middle of a step: all of it was sent, nothing was committed.
            await execute(connection, "CREATE TABLE recordari.half_done (x int)")
            os.kill(os.getpid(), 9)
    return await execute(connection, statement, *parameters, **options)
psycopg.AsyncConnection.execute = counted
print(len(asyncio.run(migrate.prepare(sys.argv[1], login=sys.argv[2]))))
"""


@pytest.fixture
def empty_database(server: EmbeddedServer) -> Iterator[str]:
    name = f"empty_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server.dsn(database=name)
    drop_database(server, name)


def start(dsn: str, die_before: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MIGRATE, dsn, APP_LOGIN, str(die_before)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=dict(os.environ),
    )


def test_of_two_starters_one_migrates_and_both_go_on(empty_database: str) -> None:
    starters = [start(empty_database) for _ in range(2)]
    applied = [int(starter.communicate(timeout=PATIENCE)[0]) for starter in starters]
    assert [starter.returncode for starter in starters] == [0, 0]
    assert min(applied) == 0 and max(applied) > 5
    assert asyncio.run(migrate.pending(empty_database)) == []


def test_a_migration_killed_at_any_step_runs_again_cleanly(empty_database: str) -> None:
    left = len(asyncio.run(migrate.pending(empty_database)))
    killed = start(empty_database, die_before=1)
    killed.communicate(timeout=PATIENCE)
    while left > 1:
        # Each attempt gets one step further than the last, and leaves nothing of the step it dies in.
        killed = start(empty_database, die_before=2)
        killed.communicate(timeout=PATIENCE)
        assert killed.returncode == -9
        with psycopg.connect(empty_database) as connection:
            assert connection.execute("SELECT to_regclass('recordari.half_done')").fetchone() == (None,)
        left -= 1
        assert len(asyncio.run(migrate.pending(empty_database))) == left
    finished = start(empty_database)
    assert int(finished.communicate(timeout=PATIENCE)[0]) == 1
    assert asyncio.run(migrate.pending(empty_database)) == []


async def test_a_step_that_was_changed_after_it_ran_is_refused(empty_database: str) -> None:
    await migrate.prepare(empty_database, login=APP_LOGIN)
    async with await psycopg.AsyncConnection.connect(empty_database, autocommit=True) as connection:
        await connection.execute(
            "UPDATE recordari.schema_migrations SET checksum = 'other' WHERE name = %s", [migrate.migrations()[0].name]
        )
    with pytest.raises(ConfigurationError, match="was changed after it was applied"):
        await migrate.prepare(empty_database, login=APP_LOGIN)


async def test_an_application_without_rights_is_told_what_to_run(empty_database: str, server: EmbeddedServer) -> None:
    login = f"plain_{uuid.uuid4().hex[:8]}"
    async with await psycopg.AsyncConnection.connect(empty_database, autocommit=True) as connection:
        await connection.execute(f"CREATE ROLE {login} LOGIN")
    try:
        with pytest.raises(ConfigurationError, match="--print-sql"):
            await migrate.prepare(psycopg.conninfo.make_conninfo(empty_database, user=login), login=login)
    finally:
        async with await psycopg.AsyncConnection.connect(empty_database, autocommit=True) as connection:
            await connection.execute(f"DROP ROLE {login}")
    assert "CREATE ROLE" in migrate.bootstrap_script() and "recordari_app" in migrate.login_script("x")
