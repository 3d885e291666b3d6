"""A proxy in front of an imitated model, and clients of both vendors' SDKs to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import SecretStr
from tests.hosts.models import Model
from tests.hosts.serving import Workbench
from tests.patience import PATIENCE, until
from tests.ports import free_port

from recordari.app import Memory
from recordari.doors.proxy.app import REST_SECONDS, Proxy, Upstream


class Setup:
    """A proxy with its model and its memory."""

    def __init__(self, bench: Workbench, model: Model, url: str, key: str) -> None:
        self.bench, self.model, self.url, self.key = bench, model, url, key
        self.clients: list[AsyncOpenAI | AsyncAnthropic] = []

    def openai(self, session: str) -> AsyncOpenAI:
        headers = {"Recordari-Session": session}
        made = AsyncOpenAI(base_url=f"{self.url}/v1", api_key=self.key, default_headers=headers, max_retries=0)
        self.clients.append(made)
        return made

    def anthropic(self, session: str) -> AsyncAnthropic:
        headers = {"Recordari-Session": session}
        made = AsyncAnthropic(base_url=self.url, api_key=self.key, default_headers=headers, max_retries=0)
        self.clients.append(made)
        return made

    async def kept(self, session: str, number: int) -> list[tuple[str, str]]:
        """What was kept of a session, once it is so many messages."""
        memory: Memory = self.bench.memory

        async def there() -> bool:
            sessions = [one for one in await memory.list_sessions() if one.session_id == session]
            return bool(sessions) and sessions[0].messages >= number

        await until(there)
        return [(str(one.role), one.content) for one in await memory.list_messages(session)]


@asynccontextmanager
async def proxied(bench: Workbench, model: Model, *, rest: float = REST_SECONDS) -> AsyncIterator[Setup]:
    port = free_port()
    key = SecretStr("operators-key")
    openai = Upstream(url=f"{model.url}/v1", key=key)  # as OpenAI's SDK has it
    anthropic = Upstream(url=model.url, key=key)
    memory = f"http://127.0.0.1:{bench.resources.settings.port}"
    made = Proxy(memory, openai=openai, anthropic=anthropic, seconds=PATIENCE, rest=rest)
    server = uvicorn.Server(uvicorn.Config(made.app(), port=port, log_config=None, access_log=False, ws="none"))
    task = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started

    await until(started)
    created = await bench.memory.acting_as(user=None).create_key("proxy", user_id="ana")
    setup = Setup(bench, model, f"http://127.0.0.1:{port}", created.key)
    try:
        yield setup
    finally:
        for client in setup.clients:
            await client.close()
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE)
