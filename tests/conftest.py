"""One PostgreSQL for the whole run, embedded or your own; every test that asks for it gets a fresh database of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import hypothesis
import psycopg
import pytest
from pydantic import SecretStr

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.databases import reader
from recordari.db import migrate
from recordari.db.address import APP_LOGIN
from recordari.db.embedded.server import EmbeddedServer
from recordari.kit.resources import Resources
from recordari.operations import rest as operations_rest
from recordari.schedule import JOBS
from recordari.tenants import tenants
from recordari.wiring import open_resources
from tests import external_server, folders
from tests.patience import PATIENCE, PATIENT
from tests.pgbouncer import Pooler, running_pgbouncer
from tests.stored import drop_database

TEMPLATE = "recordari_template"

# For root, an unprivileged account runs the servers: it must be able to enter the folders they are in.
if os.geteuid() == 0:
    _temporary = Path(tempfile.gettempdir()).resolve()
    if not all(folder.stat().st_mode & 0o001 for folder in (_temporary, *_temporary.parents)):
        tempfile.tempdir = "/tmp"

# As `PATIENT`, but no settings.
operations_rest.READY_SECONDS = 60.0
reader.START_SECONDS = 60.0

# A slow machine is no counter-example either. Everything else stays as it is chosen here or in CI.
hypothesis.settings.register_profile(
    "patient",
    parent=hypothesis.settings.get_profile(hypothesis.settings.get_current_profile_name()),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """A server shared by all parallel workers of this run; the last one to leave stops it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)
    if address := os.environ.get(external_server.ADDRESS):
        # It is used as the embedded one is; what only that one has (its folders, its programs) no such run asks for.
        given = external_server.ExternalServer(address, of_cluster=bool(os.environ.get(external_server.CITUS)))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, given.make_template(run)).result()
        yield cast("EmbeddedServer", given)
        return
    home = folders.place() / f"recordari-tests-{run[:12]}"
    home.mkdir(exist_ok=True)
    home.chmod(0o755)
    server = EmbeddedServer(
        home / "postgres",
        cache_dir=home / "cache",
        # Nothing here outlives the run, so that a crash of the machine may lose it.
        settings={
            "max_connections": "200",
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "max_wal_size": "128MB",
        },
    )
    server.acquire(timeout=PATIENCE)
    with ThreadPoolExecutor(1) as pool:  # a test may ask for the server from inside its event loop
        pool.submit(asyncio.run, _make_template(server)).result()
    yield server
    server.release()
    if not server.status().running:
        shutil.rmtree(home, ignore_errors=True)


async def _make_template(server: EmbeddedServer) -> None:
    async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as connection:
        await connection.execute("SELECT pg_advisory_lock(1)")
        made = await connection.execute("SELECT FROM pg_database WHERE datname = %s AND NOT datallowconn", [TEMPLATE])
        if not made.rowcount:
            await migrate.ensure_database(server.dsn(), TEMPLATE)
            await migrate.prepare(server.dsn(database=TEMPLATE), login=APP_LOGIN)
            # A database that somebody is connected to cannot be cloned.
            await connection.execute(f"ALTER DATABASE {TEMPLATE} ALLOW_CONNECTIONS false")


@contextmanager
def cloned_database(server: EmbeddedServer) -> Iterator[str]:
    """The name of a fresh, migrated database that is dropped afterwards."""
    name = f"test_{uuid.uuid4().hex[:16]}"
    if isinstance(server, external_server.ExternalServer):
        server.clone(name)
        yield name
        server.drop(name)
        return
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY file_copy")
    yield name
    drop_database(server, name)


@pytest.fixture(scope="session")
def pooler(server: EmbeddedServer) -> Iterator[Pooler | None]:
    """A pgbouncer before the server for the whole run, if the run asks for one (`make test-pooler`)."""
    if not os.environ.get("RECORDARI_TEST_POOLER"):
        yield None
        return
    with running_pgbouncer(server) as running:
        yield running


@pytest.fixture
def settings(server: EmbeddedServer, pooler: Pooler | None, tmp_path: Path) -> Iterator[Settings]:
    """Settings of a fresh, migrated database."""
    with cloned_database(server) as name:
        yield Settings(
            home=tmp_path,
            database_url=SecretStr((pooler or server).dsn(user=APP_LOGIN, database=name)),
            database_owner_url=SecretStr(server.dsn(database=name)),
            embedding_profile="fast",
            database_files=tmp_path,
            auto_migrate=False,  # the template is migrated already
            # What runs by the clock would run in the middle of whichever test meets its minute.
            job_concurrency={name: 0 for name, job in JOBS.items() if job.cron is not None},
            **PATIENT,
        )


@pytest.fixture
async def resources(settings: Settings) -> AsyncIterator[Resources]:
    """Everything the verbs need, on a fresh database, with no worker running."""
    async with open_resources(settings) as opened:
        opened.embedders.query_timeout = PATIENCE
        yield opened


@pytest.fixture
async def memory(resources: Resources) -> Memory:
    """The memory of the tenant `test`, as its administrator."""
    tenant = await tenants.ensure_tenant(resources, "test")
    return Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))
