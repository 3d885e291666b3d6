"""The MCP doors of the server: who may come in. What is behind them is loaded later.

The protocol's library takes a quarter of the server's start. It is loaded when a first request comes, or the server has been
up for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Role
from recordari.core.telemetry import get_log
from recordari.doors.rest.gate import METADATA_PATH
from recordari.doors.rest.limits import Hosts
from recordari.errors import Forbidden
from recordari.kit.rest import acting_identity, resources_of, without_port
from recordari.tenants.tenants import require_admin

PATH = "/mcp"
ROLES: Mapping[str, Role] = MappingProxyType(
    {"default": Role.AGENT, "agent": Role.AGENT, "mem0": Role.AGENT, "admin": Role.ADMIN}
)
"""The profiles, and the role that a credential needs to use each."""
LOADED_AFTER = 3.0  # seconds

_log = get_log(__name__)


def doors(settings: Settings) -> list[McpDoor]:
    """The default profile at `/mcp`, each other one at `/mcp/<its name>`; none without the extra `mcp`."""
    if find_spec("mcp") is None or find_spec("mcp_types") is None:
        return []
    return [McpDoor(settings, profile) for profile in ROLES]


class McpDoor:
    """`POST` to one profile, for authenticated requests, inside the block of `running`."""

    def __init__(self, settings: Settings, profile: str) -> None:
        self.path = PATH if profile == "default" else f"{PATH}/{profile}"
        self._profile = profile
        self._max_bytes = settings.max_body_bytes
        self._hosts = Hosts(self, allowed=settings.allowed_hosts)
        self._asked = asyncio.Event()
        self._handler: asyncio.Future[ASGIApp] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve requests for as long as the block lasts."""
        self._handler = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(self._serve(self._handler))
        try:
            yield
        finally:
            self._handler = None
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    async def _serve(self, handler: asyncio.Future[ASGIApp]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOADED_AFTER):
                await self._asked.wait()
        try:
            server = await asyncio.to_thread(import_module, "recordari.doors.mcp.server")
            async with server.handling(self._profile, max_bytes=self._max_bytes) as handle:
                handler.set_result(handle)
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001  # whoever asks gets it
            _log.error("mcp_failed", error=error, profile=self._profile)
            if not handler.done():
                handler.set_exception(error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._handler is not None
        scope["route"] = self  # metrics name it by its path, like FastAPI's own routes
        request = Request(scope)
        self._check_origin(request.headers.get("origin"))
        names = {noun: request.headers.get(f"recordari-{noun}") for noun in ("user", "agent", "session", "run")}
        identity = acting_identity(request.scope, **names)
        if ROLES[self._profile] is Role.ADMIN:
            require_admin(identity)
        request.state.memory = Memory(resources_of(request.scope), identity)
        self._asked.set()
        handle = await asyncio.shield(self._handler)
        await handle(scope, receive, send)

    def _check_origin(self, origin: str | None) -> None:
        """Refuse requests that a browser sends for the page of another site."""
        if origin is not None and not self._hosts.knows(without_port(urlsplit(origin).netloc.lower())):
            raise Forbidden("this server does not answer pages of that site; see RECORDARI_ALLOWED_HOSTS")


def metadata_routes(settings: Settings) -> list[Route]:
    """Where a client learns which issuer's tokens open this server (RFC 9728); none unless it accepts JWTs of one."""
    issuer = settings.jwt_issuer if settings.jwt_jwks_url is not None else None
    if issuer is None:
        return []

    async def metadata(request: Request) -> JSONResponse:
        path = request.url.path.removeprefix(METADATA_PATH) or PATH
        return JSONResponse(
            {
                "resource": f"{request.url.scheme}://{request.url.netloc}{path}",
                "resource_name": "Recordari",
                "authorization_servers": [issuer],
                "bearer_methods_supported": ["header"],
            }
        )

    paths = [METADATA_PATH, *(f"{METADATA_PATH}{door.path}" for door in doors(settings))]
    return [Route(path, metadata, methods=["GET"], include_in_schema=False) for path in paths]
