"""The REST application, which `recordari serve` runs.

A request passes, from the outside in: `RequestContext` (id, log, metrics, errors), `Timeout`, `Hosts`, `Gate`
(credential, rate), `RequestBody` (size, depth), `Admitted` (a place), `Idempotent` (done once), `Direct` (most routes),
then the framework's own layers and its route.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.routing import Route

from recordari.config import Settings, load_settings
from recordari.databases.rules import readonly_sql
from recordari.doors.mcp.http import LOADED_AFTER, metadata_routes
from recordari.doors.mcp.http import doors as mcp_doors
from recordari.doors.rest.admission import Admission
from recordari.doors.rest.direct import Direct
from recordari.doors.rest.gate import METADATA_PATH, Gate, Gatekeeper, RequestContext
from recordari.doors.rest.idempotency import KEY_PARAMETER, Idempotent
from recordari.doors.rest.limits import STREAMED, Admitted, Hosts, RateLimit, RequestBody, Timeout
from recordari.doors.rest.remote_counts import RemoteCounts
from recordari.doors.rest.shared_counts import SharedCounts
from recordari.doors.web.page import PageFiles, page_routes
from recordari.kit import problems
from recordari.kit.resources import Resources
from recordari.kit.rest import known_query
from recordari.routes import ROUTERS
from recordari.tenants.auth import Authenticator
from recordari.transfer import mem0_rest
from recordari.wiring import open_resources
from recordari.worker.dispatch import Courtesy

Background = Callable[[Resources], AbstractAsyncContextManager[object]]

TAGS = [
    {"name": "items", "description": "Memories: write, read and list them."},
    {"name": "entities", "description": "People, things and places in memory, and the items that link them."},
    {"name": "recall", "description": "Search of memory."},
    {"name": "context", "description": "What an agent gets to see for a question."},
    {"name": "sessions", "description": "Conversations: messages, window, summary and notes."},
    {"name": "runs", "description": "Agent runs with their turns and tool calls."},
    {"name": "episodes", "description": "What an agent did."},
    {"name": "state", "description": "JSON values of a run or session, by key."},
    {"name": "entries", "description": "JSON documents by namespace and key."},
    {"name": "workflows", "description": "Ways to do a task, chosen by their results."},
    {"name": "databases", "description": "Your databases that agents may query."},
    {"name": "proposals", "description": "Changes of memory that wait for an administrator."},
    {
        "name": "sharing",
        "description": "Memories shared with other tenants of the organisation, and received from them.",
    },
    {"name": "tenant", "description": "The tenant and the identity of the credential."},
    {"name": "users", "description": "The people that agents talk with."},
    {"name": "agents", "description": "Definitions of agents."},
    {"name": "keys", "description": "API keys."},
    {"name": "audit", "description": "The log of changes: who, what and why."},
    {"name": "jobs", "description": "Background work and its failures."},
    {"name": "reports", "description": "Daily briefs for people."},
    {"name": "stats", "description": "Statistics of memory, and usage of the plan."},
    {"name": "retention", "description": "How long memory is kept: the policy, its sweeps, and decay."},
    {"name": "erasures", "description": "Erasure of a user everywhere."},
    {"name": "export", "description": "Everything as JSON Lines, out and in."},
    {"name": "protection", "description": "Sources that no fact may copy; personal data and secrets."},
    {"name": "events", "description": "Changes of memory, and webhooks that receive them."},
    {"name": "knowledge", "description": "Sources and documents."},
    {"name": "mem0", "description": "The routes that mem0's client calls."},
    {"name": "health", "description": "For operators: alive, ready, metrics, version."},
]

# Otherwise FastAPI passes spans, metrics and the text of exceptions to any OpenTelemetry set-up that it finds.
NO_TELEMETRY: dict[str, Any] = {
    "telemetry": dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
}


def create_app(
    settings: Settings | None = None,
    *,
    resources: Resources | None = None,
    background: Background | None = None,
    admission: Admission | None = None,
    counts: SharedCounts | None = None,
) -> FastAPI:
    """Make the REST application.

    It opens its own resources at start-up unless you pass some that you keep open. `background` (the worker) runs
    beside it if `settings.worker` is set. With `counts`, its rate limit holds over all processes that share them.
    """
    settings = settings or (resources.settings if resources is not None else load_settings())
    # A request uses a connection for a part of its time. With more places, tenants would wait for each other in the pool.
    admission = admission or Admission(places=2 * settings.pool_max_size)
    gatekeeper = Gatekeeper(admission)
    mcp = mcp_doors(settings)
    rate_limit = _rate_limit(settings, counts)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            opened = resources if resources is not None else await stack.enter_async_context(open_resources(settings))
            opened.telemetry.watch("recordari_admission", "Places and queue of requests.", admission.figures)
            opened.get(Courtesy).requests_wait = admission.has_waiting
            app.state.resources = opened
            app.state.authenticator = Authenticator(opened)
            stack.push_async_callback(app.state.authenticator.close)
            gatekeeper.open(app.state.authenticator)
            await stack.enter_async_context(rate_limit.sharing() if rate_limit is not None else nullcontext())
            for door in mcp:
                await stack.enter_async_context(door.running())
            if background is not None and settings.worker:
                await stack.enter_async_context(background(opened))
            parser = asyncio.create_task(_load_parser())
            stack.callback(parser.cancel)
            yield

    app = FastAPI(
        title="Recordari",
        summary="Memory for AI agents.",
        version=version("recordari"),
        openapi_tags=TAGS,
        lifespan=lifespan,
        middleware=_layers(settings, admission, gatekeeper, rate_limit),
        # FastAPI's pages load scripts from other sites; the dashboard brings its own.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        **NO_TELEMETRY,
    )
    app.state.gatekeeper = gatekeeper
    problems.install(app)
    _complete_description(app)
    _include_routers(app)
    app.router.routes.extend([*page_routes(PageFiles()), *metadata_routes(settings)])
    for door in mcp:
        app.router.routes.append(Route(door.path, door, methods=["POST"], include_in_schema=False))
    return app


def _include_routers(app: FastAPI) -> None:
    for router in ROUTERS:
        # mem0's client may send parameters that we do not know.
        strict = [] if router is mem0_rest.router else [Depends(known_query)]
        app.include_router(router, dependencies=strict)


def _complete_description(app: FastAPI) -> None:
    """Describe what no route declares: the `Idempotency-Key` of every POST, and the schema of errors."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described()["components"]["schemas"].update(problems.problem_schemas())
            for path, methods in described()["paths"].items():
                if "post" in methods and path not in STREAMED:
                    methods["post"].setdefault("parameters", []).append(KEY_PARAMETER)
        return described()

    app.openapi = openapi  # type: ignore[method-assign]  # how FastAPI wants its description changed


async def _load_parser() -> None:
    """So that the first statement for a connected database does not wait for its parser, nor the start of the server."""
    await asyncio.sleep(LOADED_AFTER)
    await asyncio.to_thread(readonly_sql.make_ready)


def _rate_limit(settings: Settings, shared: SharedCounts | None) -> RateLimit | None:
    if not settings.rate_limit:
        return None
    remote = RemoteCounts(settings.redis_url.get_secret_value()) if settings.redis_url is not None else None
    return RateLimit(settings.rate_limit, shared=shared, remote=remote)


def _layers(
    settings: Settings, admission: Admission, gatekeeper: Gatekeeper, rate_limit: RateLimit | None
) -> list[Middleware]:
    described = [route.path.removeprefix(METADATA_PATH) for route in metadata_routes(settings)]
    return [
        Middleware(RequestContext),
        Middleware(Timeout, seconds=settings.request_timeout),
        Middleware(Hosts, allowed=settings.allowed_hosts),
        Middleware(Gate, rate_limit=rate_limit, gatekeeper=gatekeeper, described=described),
        Middleware(RequestBody, max_bytes=settings.max_body_bytes),
        Middleware(Admitted, admission=admission),
        Middleware(Idempotent),
        Middleware(Direct, routes=[each for router in ROUTERS for each in router.routes if isinstance(each, APIRoute)]),
    ]
