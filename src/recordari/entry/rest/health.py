"""For operators and their machines: alive, ready, metrics, version.

`/metrics` shows figures of the whole process, so that no tenant's key opens it. It is open to this machine (a
loopback client under a loopback host name, with no sign of a proxy between); from elsewhere it needs
`RECORDARI_METRICS_TOKEN`.
"""

from __future__ import annotations

import asyncio
import hmac
from importlib.metadata import version

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from recordari.core.telemetry import get_log
from recordari.entry.auth import bearer
from recordari.entry.rest.limits import host_name
from recordari.errors import DatabaseUnavailable, RecordariError, Unauthenticated
from recordari.kit.problems import Problem
from recordari.service.maintenance import is_loopback
from recordari.wiring import check_ready

READY_SECONDS = 1.5
FORWARDING = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")

router = APIRouter(tags=["health"])
_log = get_log(__name__)


class Health(BaseModel):
    """A good answer."""

    status: str = Field(default="ok", examples=["ok"])


class Version(BaseModel):
    """What runs here."""

    version: str = Field(examples=["0.1.0"])


@router.get("/healthz", operation_id="health")
async def health() -> Health:
    """Whether the process is alive."""
    return Health()


@router.get(
    "/readyz",
    operation_id="ready",
    responses={503: {"model": Problem, "description": "The database is away."}},
)
async def ready(request: Request) -> Health:
    """Whether requests can be served: the database answers and has every migration."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await check_ready(request.app.state.resources)
    except (RecordariError, TimeoutError) as error:
        _log.warning("not_ready", error=error)
        raise DatabaseUnavailable from error
    return Health()


@router.get("/version", operation_id="version")
async def show_version() -> Version:
    """The version of the server."""
    return Version(version=version("recordari"))


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}},
        401: {"model": Problem, "description": "No valid token."},
    },
)
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    resources = request.app.state.resources
    if not _from_this_machine(request):
        token = resources.settings.metrics_token
        given = bearer(request.headers.get("authorization")) or ""
        if token is None or not hmac.compare_digest(token.get_secret_value().encode(), given.encode()):
            raise Unauthenticated
    text = await resources.telemetry.render()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _from_this_machine(request: Request) -> bool:
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and is_loopback(host_name(request.scope))
        and not any(name in request.headers for name in FORWARDING)
    )
