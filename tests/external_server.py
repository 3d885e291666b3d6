"""A server of your own for the tests, in place of the embedded one: `RECORDARI_TEST_DATABASE_URL`, as a superuser.

With `RECORDARI_TEST_CITUS=1` it is the coordinator of a Citus cluster, whose nodes the database of that address knows. The
template is divided among them, and a test's database is a clone of it on every node: it keeps the ids of tables and shards.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from recordari.config import Settings
from recordari.db import cluster, migrate
from recordari.db.address import APP_LOGIN

TEMPLATE = "recordari_template"
SHARDS = 4
ADDRESS = "RECORDARI_TEST_DATABASE_URL"
CITUS = "RECORDARI_TEST_CITUS"

on_cluster = pytest.mark.skipif(
    not os.environ.get(CITUS), reason=f"it needs a Citus cluster: set {ADDRESS} to its coordinator, and {CITUS}=1"
)


def not_on_cluster(reason: str) -> pytest.MarkDecorator:
    """For a test that cannot hold on a cluster; the run lists it with the reason."""
    return pytest.mark.skipif(bool(os.environ.get(CITUS)), reason=f"not on a cluster: {reason}")


def embedded_alone(reason: str) -> pytest.MarkDecorator:
    """For a test that needs the embedded server itself; a run on a server of your own lists it with the reason."""
    return pytest.mark.skipif(bool(os.environ.get(ADDRESS)), reason=f"needs the embedded server: {reason}")


class ExternalServer:
    """The server at an address; on a cluster also its nodes, the coordinator first."""

    def __init__(self, address: str, *, of_cluster: bool) -> None:
        self._parts = conninfo_to_dict(address)
        self.of_cluster = of_cluster
        self.nodes = [(str(self._parts.get("host", "localhost")), int(self._parts.get("port") or 5432))]
        if of_cluster:
            with psycopg.connect(address) as connection:
                found = connection.execute(
                    "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY groupid"
                )
                self.nodes += [(name, port) for name, port in found]

    def dsn(self, *, user: str | None = None, database: str = "postgres", node: int = 0) -> str:
        host, port = self.nodes[node]
        given = {**self._parts, "host": host, "port": port, "dbname": database, "user": user or self._parts["user"]}
        if user is not None and user != self._parts["user"]:
            given.pop("password", None)
        return make_conninfo(**{name: str(value) for name, value in given.items()})

    @contextmanager
    def each_node(self) -> Iterator[list[psycopg.Connection[tuple[object, ...]]]]:
        """A superuser's connection with every node."""
        connections = [psycopg.connect(self.dsn(node=node), autocommit=True) for node in range(len(self.nodes))]
        try:
            yield connections
        finally:
            for connection in connections:
                connection.close()

    async def make_template(self, run: str) -> None:
        """Create the template anew, once for all processes of a run: an old one may have another schema."""
        with self.each_node() as nodes:
            nodes[0].execute("SELECT pg_advisory_lock(1)")
            made_by = (
                nodes[0]
                .execute("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", [TEMPLATE])
                .fetchone()
            )
            if made_by == (run,):
                return
            await self._make_template(nodes)
            nodes[0].execute(f"COMMENT ON DATABASE {TEMPLATE} IS '{run}'")

    async def _make_template(self, nodes: list[psycopg.Connection[tuple[object, ...]]]) -> None:
        for node in nodes:
            _drop(node, TEMPLATE)
            node.execute(f"CREATE DATABASE {TEMPLATE}")
        if self.of_cluster:
            self.join_nodes(TEMPLATE)
        await migrate.prepare(self.dsn(database=TEMPLATE), login=APP_LOGIN)
        if self.of_cluster:
            await cluster.distribute(self.dsn(database=TEMPLATE), shards=SHARDS)
        for node in nodes:
            node.execute(f"ALTER DATABASE {TEMPLATE} ALLOW_CONNECTIONS false")
            node.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [TEMPLATE])

    @contextmanager
    def undivided(self, settings: Settings) -> Iterator[tuple[Settings, str]]:
        """Settings of an empty database on all nodes that is not divided yet, and its name; it is dropped at the end."""
        name = f"whole_{uuid.uuid4().hex[:12]}"
        with self.each_node() as nodes:
            for node in nodes:
                node.execute(f"CREATE DATABASE {name}")
        self.join_nodes(name)
        addresses = {
            "database_url": SecretStr(self.dsn(user=APP_LOGIN, database=name)),
            "database_owner_url": SecretStr(self.dsn(database=name)),
        }
        try:
            yield settings.model_copy(update=addresses), name
        finally:
            self.drop(name)

    def join_nodes(self, database: str) -> None:
        """Make the databases of this name on all nodes one cluster."""
        for node in range(len(self.nodes)):
            with psycopg.connect(self.dsn(database=database, node=node), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION citus")
        with psycopg.connect(self.dsn(database=database), autocommit=True) as connection:
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", self.nodes[0])
            for host, port in self.nodes[1:]:
                connection.execute("SELECT citus_add_node(%s, %s)", [host, port])

    def clone(self, name: str) -> None:
        with self.each_node() as nodes:
            for node in nodes:
                node.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY file_copy")

    def drop(self, name: str) -> None:
        with self.each_node() as nodes:
            for node in nodes:
                _drop(node, name)


def _drop(node: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    for _ in range(10):
        with suppress(psycopg.errors.ObjectInUse):  # after five seconds the server waits no longer
            node.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            return
    raise RuntimeError(f"the database {name} stays in use")
