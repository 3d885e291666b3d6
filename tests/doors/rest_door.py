"""A REST application in this process, with keys to it: what the tests of the REST door share."""

from __future__ import annotations

import io
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from fastapi import FastAPI

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.core.telemetry import ContentFreeFormatter
from recordari.doors.rest.admission import Admission
from recordari.doors.rest.app import create_app
from recordari.kit.resources import Resources
from recordari.sessions.rules.window import NewMessage
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition

REQUEST_ID = "request-0001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The application, a client to it, and one key of each kind."""

    app: FastAPI
    client: httpx2.AsyncClient
    memory: Memory
    other: Memory
    keys: dict[str, str]

    async def request(self, method: str, path: str, *, key: str | None = "admin", **more: Any) -> httpx2.Response:
        """Send a request with the key of that kind, under a fixed request id."""
        headers = {"X-Request-Id": REQUEST_ID, **more.pop("headers", {})}
        if key is not None:
            headers["Authorization"] = f"Bearer {self.keys.get(key, key)}"
        return await self.client.request(method, path, headers=headers, **more)


def client_of(app: FastAPI, *, address: str = "127.0.0.1") -> httpx2.AsyncClient:
    """A client that calls the application without a network."""
    transport = httpx2.ASGITransport(app=app, client=(address, 4711))
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30)


@asynccontextmanager
async def open_door(resources: Resources, *, admission: Admission | None = None, **changes: Any) -> AsyncIterator[Door]:
    """Serve the resources, with settings changed, to the tenants `test` and `other`."""
    assert changes.keys() <= Settings.model_fields.keys(), "a setting that is not there changes nothing"
    resources = replace(resources, settings=resources.settings.model_copy(update=changes))
    memory, other = [
        Memory(
            resources,
            Identity(tenant_id=(await tenants.ensure_tenant(resources, name)).tenant_id, role=Role.ADMIN),
        )
        for name in ("test", "other")
    ]
    # A starved machine lets requests wait longer than a user would.
    app = create_app(resources=resources, admission=admission or Admission(wait_seconds=60.0))
    keys = {
        "admin": (await memory.create_key("admin", role=Role.ADMIN)).key,
        "agent": (await memory.create_key("agent")).key,
        "alice": (await memory.create_key("alice", user_id="alice")).key,
        "other": (await other.create_key("other", role=Role.ADMIN)).key,
    }
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield Door(app=app, client=client, memory=memory, other=other, keys=keys)


async def furnish(door: Door, secret: str) -> dict[str, str]:
    """Give the tenant `test` one thing of each noun, each with a secret text; their ids by parameter name."""
    await door.memory.save_user("alice", display_name=secret)
    await door.memory.save_agent("support", AgentDefinition(core=secret))
    key = await door.memory.create_key(secret)
    output = await door.memory.remember(f"{secret} " * 2000, kind="tool_output", session_id="furnished")
    assert output.payload_key is not None
    working = door.memory.acting_as(user="alice", agent="support", session="furnished")
    await working.add_messages([NewMessage(content=secret)], session_id="furnished")
    await working.set_state(output.payload_key, secret)
    run = await working.start_run(run_id="furnished-run", input={"goal": secret})
    workflow = await door.memory.save_workflow(secret, {"text": secret}, agent_type="support", task_type="reply")
    report = await door.memory.make_daily_brief()
    hooked = await door.memory.create_webhook("https://192.0.0.9/hook")
    job_id = await door.memory.enqueue_job("measure_usage")
    erasure = await door.memory.start_erasing_user("nobody-left")
    document = await door.memory.add_document("furnished.md", text=secret)
    database = await _sqlite(door, secret)
    doubted = await door.memory.acting_as(user="alice").remember_fact(f"{secret} is doubted")
    await door.memory.give_feedback(doubted.id, "wrong")
    await door.memory.review_memory()
    (proposal,) = await door.memory.list_proposals()
    fact = await working.remember_fact(secret)
    return {
        "memory_id": str(fact.id),
        "entity_type": "user",
        "entity_name": "alice",
        "user_id": "alice",
        "agent_id": "support",
        "key_id": str(key.key_id),
        "item_id": str(output.id),
        "key": output.payload_key,
        "session_id": "furnished",
        "run_id": run.run.run_id,
        "owner": "session",
        "owner_id": "furnished",
        "workflow_id": str(workflow.workflow.workflow_id),
        "report_id": str(report.report_id),
        "erasure_id": str(erasure.erasure_id),
        "action_id": "an-action",
        "webhook_id": str(hooked.webhook.webhook_id),
        "job_id": str(job_id),
        "document_id": str(document.document.document_id),
        "source_id": str(document.document.source_id),
        "database_id": database,
        "proposal_id": str(proposal.proposal_id),
    }


async def _sqlite(door: Door, secret: str) -> str:
    """The id of a connected database with one secret row."""
    files = door.memory.resources.settings.database_files
    assert files is not None
    with closing(sqlite3.connect(files / "furnished.db")) as connection, connection:
        connection.execute("CREATE TABLE notes (id INTEGER, body TEXT)")
        connection.execute("INSERT INTO notes VALUES (1, ?)", [secret])
    added = await door.memory.add_database(secret, "sqlite:///furnished.db", tables=["notes"], description=secret)
    return str(added.database_id)


@contextmanager
def logs() -> Iterator[io.StringIO]:
    """Everything logged meanwhile, by any package at any level, as the server would write it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ContentFreeFormatter(json.dumps))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
