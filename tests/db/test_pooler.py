"""Everything works through a pooler in transaction mode, whatever its other clients left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import psycopg
import pytest
from pydantic import SecretStr
from tests.conftest import cloned_database
from tests.doors.rest_door import open_door
from tests.external_server import embedded_alone
from tests.patience import PATIENCE, PATIENT, until
from tests.pgbouncer import Pooler, running_pgbouncer
from tests.working import until_settled

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.db import backup, migrate
from recordari.db.address import APP_LOGIN
from recordari.db.database import Database
from recordari.db.embedded.server import EmbeddedServer
from recordari.db.queries import Query
from recordari.errors import ConfigurationError
from recordari.runner import background_worker
from recordari.schedule import JOBS
from recordari.tenants import tenants
from recordari.wiring import open_resources

pytestmark = embedded_alone("a pooler is put before it")


async def spoil(dsn: str) -> None:
    """Leave on every server connection of the pool what careless programs leave there."""
    clients = [await psycopg.AsyncConnection.connect(dsn, prepare_threshold=None) for _ in range(2)]
    for client in clients:  # both in a transaction at once: each has a server connection of its own
        await client.execute("SET search_path = nowhere; SET statement_timeout = 0; SET jit = on")
        await client.execute("SET TimeZone = 'Asia/Tokyo'; PREPARE bind AS SELECT 1")
    for client in clients:
        await client.commit()
        await client.close()


@pytest.fixture
async def behind(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[tuple[Memory, Pooler]]:
    """A memory whose only way to the database is a spoilt pooler with two server connections."""
    with cloned_database(server) as name, running_pgbouncer(server) as pooler:
        dsn = pooler.dsn(user=APP_LOGIN, database=name)
        await spoil(dsn)
        settings = Settings(
            home=tmp_path,
            database_url=SecretStr(dsn),
            embedding_profile="fast",
            auto_migrate=False,
            job_concurrency={job: 0 for job, row in JOBS.items() if row.cron is not None},
            **PATIENT,
        )
        async with open_resources(settings) as resources:
            resources.embedders.query_timeout = PATIENCE
            tenant = await tenants.ensure_tenant(resources, "test")
            yield Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)), pooler


async def test_requests_and_jobs_work_through_a_spoilt_pool(behind: tuple[Memory, Pooler]) -> None:
    memory, _ = behind
    database = memory.resources.database
    assert database.behind_pooler
    async with database.transaction(memory.identity) as tx:
        assert await tx.value(Query("limit", "Our limit.", "SHOW statement_timeout")) == "1min"
    async with background_worker(memory.resources), open_door(memory.resources) as door:

        async def post(path: str, body: object, *, user: str = "ida", **headers: str) -> httpx2.Response:
            sent = {"Recordari-User": user, **headers}
            answer = await door.request("POST", path, json=body, headers=sent)
            assert answer.is_success, answer.text
            return answer

        for number in range(6):  # more often than the driver needs to prepare a statement
            await post("/v1/remember_fact", {"content": f"Shelf {number} of the archive holds the maps of Lisbon"})
        once = {"Idempotency-Key": "only-once"}
        fact = {"content": "Ida rides a green bicycle to the archive"}
        first = await post("/v1/remember_fact", fact, **once)
        assert (await post("/v1/remember_fact", fact, **once)).json() == first.json()
        session = (await post("/v1/sessions", {"session_id": "chat-1"})).json()["session"]["session_id"]
        for text in ("The green bicycle has a flat tyre", "The shop in Rua Augusta mends it on Monday"):
            await post(f"/v1/sessions/{session}/messages", {"messages": [{"role": "user", "content": text}]})
        await until_settled(memory)

        for _ in range(6):
            found = (await post("/v1/recall", {"query": "Which colour is the bicycle of Ida?"})).json()
            assert "green bicycle" in found["items"][0]["content"]
            assert found["degraded"] is False
        asked = {"question": "Who mends the bicycle?"}
        context = (await post("/v1/context", asked, **{"Recordari-Session": session})).json()
        assert "Rua Augusta" in str(context)
        assert (await post("/v1/recall", {"query": "green bicycle"}, user="somebody else")).json()["items"] == []

        # A job of the queue, which other settings and another pool serve.
        await post("/v1/jobs", {"job": "housekeeping"})

        async def has_run() -> bool:
            jobs = (await door.request("GET", "/v1/jobs")).json()["items"]
            return [job["status"] for job in jobs] == ["succeeded"]

        await until(has_run)


async def test_the_owner_is_sent_past_the_pooler(behind: tuple[Memory, Pooler], server: EmbeddedServer) -> None:
    memory, pooler = behind
    name = memory.resources.database.dsn.rpartition("/")[2]
    through = pooler.dsn(user="postgres", database=name)
    with pytest.raises(ConfigurationError, match="pooler in transaction mode; set RECORDARI_DATABASE_OWNER_URL"):
        await migrate.prepare(through, login=APP_LOGIN)
    with pytest.raises(ConfigurationError, match="pooler in transaction mode"):
        await backup.find_reader(through)
    assert await migrate.prepare(server.dsn(database=name), login=APP_LOGIN) == []

    direct = Database(server.dsn(user=APP_LOGIN, database=name))
    await direct.open()
    assert not direct.behind_pooler
    await direct.close()


async def test_a_worker_listens_past_the_pooler(behind: tuple[Memory, Pooler], server: EmbeddedServer) -> None:
    memory, _ = behind
    name = memory.resources.database.dsn.rpartition("/")[2]
    direct = server.dsn(user=APP_LOGIN, database=name)
    settings = memory.resources.settings.model_copy(update={"database_direct_url": SecretStr(direct)})
    async with open_resources(settings) as resources, background_worker(resources):

        def listeners() -> list[str]:
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                statement = "SELECT query FROM pg_stat_activity WHERE datname = %s AND query LIKE 'LISTEN%%'"
                return [query for (query,) in connection.execute(statement, [name])]

        await until(lambda: any("recordari_outbox" in query for query in listeners()))
