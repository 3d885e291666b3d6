"""A server on a port of its own in this process, and hooks that are called as a host calls them."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from tests.patience import PATIENCE, until
from tests.ports import free_port

from recordari.app import Memory
from recordari.core.identity import Identity, Role
from recordari.doors.rest.admission import Admission
from recordari.doors.rest.app import create_app
from recordari.hosts import install
from recordari.hosts.install import HostInstallation, Request
from recordari.kit.resources import Resources
from recordari.kit.verbs import Caller
from recordari.tenants import tenants


@asynccontextmanager
async def serving(resources: Resources) -> AsyncIterator[None]:
    """Serve the resources at the port of their settings."""
    app = create_app(resources=resources, admission=Admission(wait_seconds=PATIENCE))
    config = uvicorn.Config(app, port=resources.settings.port, log_config=None, access_log=False, ws="none")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())

    async def started() -> bool:
        assert not task.done(), "the server ended"
        return server.started

    await until(started)
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE)


class Workbench:
    """A home, a project and a tenant; hosts are installed into them and call their hooks."""

    def __init__(self, resources: Resources, caller: Caller, folder: Path) -> None:
        self.resources = resources
        self.caller = caller
        self.home = folder / "home"
        self.project = folder / "atlas"
        self.memory = Memory(resources, caller.identity).acting_as(user="ana")
        for made in (self.home, self.project / ".git"):
            made.mkdir(parents=True)

    async def install(self, **given: Any) -> HostInstallation:
        request = Request(home=self.home, project=self.project, **{"user": "ana", **given})
        made = await install.install(self.resources, self.caller, request)
        file = install.folder_of(self.resources.settings) / f"{made.name}.json"
        stored = json.loads(file.read_text())
        file.write_text(json.dumps({**stored, "seconds": PATIENCE}))  # no machine is too slow for a test
        return made

    async def uninstall(self, made: HostInstallation) -> list[str]:
        return await install.uninstall(self.resources, self.caller, made, home=self.home)

    async def call(self, line: str, **given: Any) -> Any:
        """Run the command of a hook as a host does, and return its answer."""
        process = await asyncio.create_subprocess_exec(
            *shlex.split(line),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await process.communicate(json.dumps({"cwd": str(self.project), **given}).encode())
        assert process.returncode == 0 and not error, error.decode()
        return json.loads(out)


async def workbench(resources: Resources, folder: Path) -> Workbench:
    resources = replace(resources, settings=resources.settings.model_copy(update={"port": free_port()}))
    tenant = await tenants.ensure_tenant(resources, "test")
    return Workbench(resources, Caller(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)), folder)
