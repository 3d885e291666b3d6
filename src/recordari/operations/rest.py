"""Health, metrics and version of the server; reports and statistics of a tenant.

`/metrics` shows figures of the whole process, so that the key of a tenant does not open it. It is open to this machine (a
loopback client and host name, no sign of a proxy); from elsewhere it needs `RECORDARI_METRICS_TOKEN`.
"""

from __future__ import annotations

import asyncio
import hmac
from datetime import date
from importlib.metadata import version
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from recordari.core.checks import is_loopback
from recordari.core.telemetry import get_log
from recordari.db.address import check_ready
from recordari.errors import DatabaseUnavailable, RecordariError, Unauthenticated
from recordari.kit.problems import error_responses
from recordari.kit.rest import PROBLEMS, AdminCaller, Cursor, Limit, bearer, host_name, page_of, paged, read_position
from recordari.operations import reports, server
from recordari.operations.doctor import Check
from recordari.operations.reports import MOST_ACTIVE_DAYS, Activity, Stats
from recordari.operations.rules import Report
from recordari.operations.server import SettingInForce
from recordari.tenants import usage
from recordari.tenants.usage import QuotaUsage

READY_SECONDS = 1.5
FORWARDING = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")

health_router = APIRouter(tags=["health"])
_log = get_log(__name__)


class Health(BaseModel):
    """The server works."""

    status: str = Field(default="ok", examples=["ok"])


class Version(BaseModel):
    """The version of the server."""

    version: str = Field(examples=["0.1.0"])


@health_router.get("/healthz", operation_id="health")
async def health() -> Health:
    """Check that the process is alive."""
    return Health()


@health_router.get(
    "/readyz",
    operation_id="ready",
    responses=error_responses({503: "The database is away."}),
)
async def ready(request: Request) -> Health:
    """Check that requests can be served: the database answers and has every migration."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await check_ready(request.app.state.resources.database)
    except (RecordariError, TimeoutError) as error:
        _log.warning("not_ready", error=error)
        raise DatabaseUnavailable from error
    return Health()


@health_router.get("/version", operation_id="version")
async def show_version() -> Version:
    """Return the version of the server."""
    return Version(version=version("recordari"))


@health_router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **error_responses({401: "No valid token."})},
)
async def metrics(request: Request) -> Response:
    """Return metrics in the text format of Prometheus; those by tenant only with the token of the operator."""
    resources = request.app.state.resources
    token = resources.settings.metrics_token
    credential = bearer(request.headers.get("authorization")) or ""
    is_operator = token is not None and hmac.compare_digest(token.get_secret_value().encode(), credential.encode())
    if not is_operator and not _from_this_machine(request):
        raise Unauthenticated
    text = await resources.telemetry.render(by_tenant=is_operator)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _from_this_machine(request: Request) -> bool:
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and is_loopback(host_name(request.scope))
        and not any(name in request.headers for name in FORWARDING)
    )


reports_router = APIRouter(prefix="/v1/reports", tags=["reports"], responses=PROBLEMS)


@reports_router.get("", operation_id="list_reports", **paged(Report, cursor="before"))
async def list_reports(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """List daily briefs, newest first."""
    before = read_position(cursor, date.fromisoformat)
    briefs = await reports.list_reports(*caller, before=before, limit=limit + 1)
    return page_of(briefs, limit, lambda report: report.day)


@reports_router.post("/daily_brief", operation_id="make_daily_brief")
async def make_daily_brief(caller: AdminCaller) -> Report:
    """Write the brief of today now."""
    return await reports.make_daily_brief(*caller)


@reports_router.get("/{report_id}", operation_id="get_report")
async def get_report(caller: AdminCaller, report_id: UUID) -> Report:
    """Return a report."""
    return await reports.get_report(*caller, report_id)


stats_router = APIRouter(prefix="/v1", tags=["stats"], responses=PROBLEMS)


@stats_router.get("/health", operation_id="server_health")
async def server_health(caller: AdminCaller) -> list[Check]:
    """Check the database and every model that the server uses; a check that is not `ok` has advice."""
    return await server.server_health(*caller)


@stats_router.get("/settings", operation_id="settings_in_force")
async def settings_in_force(caller: AdminCaller) -> list[SettingInForce]:
    """List the settings of the server as they are in force, without secrets, folders and addresses."""
    return await server.settings_in_force(*caller)


@stats_router.get("/stats", operation_id="memory_stats")
async def memory_stats(caller: AdminCaller) -> Stats:
    """Return the figures of the tenant's memory, its pending work and its quota."""
    return await reports.memory_stats(*caller)


@stats_router.get("/stats/activity", operation_id="memory_activity")
async def memory_activity(
    caller: AdminCaller, days: Annotated[int, Query(ge=1, le=MOST_ACTIVE_DAYS, description="How far back.")] = 30
) -> Activity:
    """Return how memory grew in the last days, and how quick recall was in the last hour."""
    return await reports.memory_activity(*caller, days=days)


@stats_router.get("/quota", operation_id="quota_usage")
async def quota_usage(caller: AdminCaller) -> QuotaUsage:
    """Return how much of its plan the tenant uses."""
    return await usage.quota_usage(*caller)
