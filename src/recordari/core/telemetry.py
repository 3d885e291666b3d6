"""Metrics, traces and logs of this process: figures, ids and code locations, never content.

Nothing leaves the process by itself: metrics wait at `/metrics`, logs go to standard error, and OpenTelemetry gets
spans only if `RECORDARI_TRACING` is set. Heavy packages are imported at their first use.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TextIO, TypeVar
from uuid import UUID

from recordari.core.tracing import Spans, outcome_of
from recordari.errors import RecordariError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

P = ParamSpec("P")
R = TypeVar("R")

LogFormat = Literal["auto", "console", "json"]
Figures = Mapping[str, float]
GaugeSource = Callable[[], Figures | Awaitable[Figures]]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MAX_LOGGED_CHARACTERS = 128
MOST_NAMES = 200
"""Different tools and tenants that metrics tell apart in one process; further ones are counted together."""
OTHER = "other"
TALLY_SECONDS = 1.0
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Its files hold the metrics of several processes; prometheus_client reads this name from the environment."""

request_id: ContextVar[str | None] = ContextVar("recordari_request_id", default=None)
"""The id of the current request; it is in each of its log lines."""


# Logs


def safe(value: object) -> object:
    """The part of a value that a log may show: numbers, ids and short words; of others the type and size."""
    match value:
        case None | bool() | int() | float():
            return value
        case BaseException():
            return type(value).__name__
        case Enum():
            return safe(value.value)
        case UUID():
            return str(value)
        case datetime():
            return value.isoformat()
        case str() if len(value) <= MAX_LOGGED_CHARACTERS and value.isprintable() and " " not in value:
            return value
        case str() | bytes():
            return f"<{len(value)} characters>"
        case list() | tuple() | set() | frozenset() | dict():
            return f"<{len(value)} entries>"
        case _:
            return f"<{type(value).__name__}>"


def frames_of(error: BaseException, most: int = 12) -> str:
    """File, line and function of an exception's innermost frames, and no text of it."""
    frames = traceback.extract_tb(error.__traceback__)[-most:]
    return " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}:{frame.name}" for frame in reversed(frames))


class Log:
    """Writes events with fields to the standard logger of that name; every field goes through `safe`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Of an exception in the field `error` the class and the frames are written, never its text."""
        if isinstance(error := fields.get("error"), BaseException):
            fields["at_code"] = _Frames(frames_of(error))
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        shown = {key: value if isinstance(value, _Frames) else safe(value) for key, value in fields.items()}
        if (current := request_id.get()) is not None:
            shown.setdefault("request_id", current)
        words = "".join(f" {key}={value}" for key, value in shown.items())
        own, logger = {"recordari_event": event, "recordari_fields": shown}, self._logger
        # Not by `log`, which looks for the line of code that called it.
        logger.handle(logger.makeRecord(logger.name, level, "", 0, "%s%s", (event, words), None, extra=own))


class _Frames(str):
    """Text made by `frames_of`, which names code only and so is safe."""

    __slots__ = ()


def get_log(name: str) -> Log:
    return Log(name)


class Tally:
    """Counts what may happen very often, and logs it at most once a second: the first at once, then how many more."""

    def __init__(self, write: Callable[..., None], event: str) -> None:
        self._write = write
        self._event = event
        self._more: dict[
            tuple[tuple[str, object], ...], int
        ] = {}  # since the last line, which is younger than a second
        self._loop: asyncio.AbstractEventLoop | None = None

    def count(self, **fields: object) -> None:
        """Count one; those with other fields have a line of their own."""
        loop, key = asyncio.get_running_loop(), tuple(fields.items())
        if loop is not self._loop:  # the timers of another loop never ring
            self._loop, self._more = loop, {}
        if key in self._more:
            self._more[key] += 1
        else:
            self._line(loop, key, 1)

    def _line(self, loop: asyncio.AbstractEventLoop, key: tuple[tuple[str, object], ...], number: int) -> None:
        self._more[key] = 0
        self._write(self._event, count=number, **dict(key))
        # In no context: the next line belongs to no single request.
        loop.call_later(TALLY_SECONDS, self._ring, loop, key, context=Context())

    def _ring(self, loop: asyncio.AbstractEventLoop, key: tuple[tuple[str, object], ...]) -> None:
        if number := self._more.pop(key, 0):
            self._line(loop, key, number)


class ContentFreeFormatter(logging.Formatter):
    """Renders our events, and of other packages' records only the parts that cannot carry content.

    Those packages put values into messages. So of their records we keep the template if the values are separate from
    it, the class and frames of an exception, and the line of code that wrote it.
    """

    def __init__(self, render: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, "recordari_fields", None)
        if fields is not None:
            line |= {"event": record.recordari_event, **fields}  # type: ignore[attr-defined]
        else:
            line |= _reduced(record)
        return self._render(line)


def _reduced(record: logging.LogRecord) -> dict[str, Any]:
    # uvicorn.error writes constant sentences ("Application startup complete."); others may format first.
    is_template = bool(record.args) or record.name == "uvicorn.error"
    fields: dict[str, Any] = {"event": str(record.msg).strip() if is_template else "foreign_log"}
    if isinstance(action := getattr(record, "action", None), str):
        fields["action"] = safe(action)
    fields["code"] = f"{record.module}:{record.lineno}:{record.funcName}"
    if record.exc_info and record.exc_info[1] is not None:
        fields |= {"error": type(record.exc_info[1]).__name__, "at_code": frames_of(record.exc_info[1])}
    if (current := request_id.get()) is not None:
        fields["request_id"] = current
    return fields


def _as_event(_: Any, __: str, line: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """The arguments that structlog passes to a `Log`, so that code which uses structlog follows the same rules."""
    event, error = str(line.pop("event")), line.pop("exc_info", None)
    if error:
        line["error"] = error if isinstance(error, BaseException) else sys.exc_info()[1]
    return (event,), dict(line)


def configure_logging(*, form: LogFormat = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Send every log of the process to `stream` (standard error), as JSON lines or as text for a terminal."""
    import structlog

    stream = stream or sys.stderr
    form = form if form != "auto" else "console" if stream.isatty() else "json"
    console = structlog.dev.ConsoleRenderer(timestamp_key="at", colors=stream.isatty())
    as_json = json.JSONEncoder(default=repr).encode
    structlog.configure(
        processors=[_as_event],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *names: Log(names[0] if names else "recordari"),
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ContentFreeFormatter(as_json if form == "json" else lambda line: str(console(None, "", line))))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # Our own request line has the route's template; uvicorn's has the raw path, which may contain a user's text.
    logging.getLogger("uvicorn.access").disabled = True
    for name in ("httpx2", "httpcore2", "procrastinate", "mcp"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


# Metrics and traces


class Measurement:
    """Figures of one operation for its span."""

    __slots__ = ("figures",)

    def __init__(self) -> None:
        self.figures: dict[str, bool | int | float] = {}

    def note(self, **figures: bool | float) -> None:
        """Add counts and flags: `records` are the items that the operation returned or wrote."""
        self.figures.update(figures)


class ReportedUsage(Protocol):
    """Tokens and cost, as agents report them."""

    @property
    def tokens_in(self) -> int: ...
    @property
    def tokens_out(self) -> int: ...
    @property
    def cost(self) -> Decimal: ...


class Telemetry:
    """The metrics of one set of resources, in a registry of their own, and a tracer if tracing is on."""

    def __init__(self, *, tracing: bool = False) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.registry = CollectorRegistry()
        counter = functools.partial(Counter, registry=self.registry)
        histogram = functools.partial(Histogram, registry=self.registry, buckets=SECONDS)
        self._operations = histogram(
            "recordari_operation_seconds",
            "Time of an operation by outcome (ok, or the error's code).",
            ("operation", "outcome"),
        )
        self._requests = counter("recordari_requests", "Requests by route template.", ("method", "route", "status"))
        self._request_seconds = histogram(
            "recordari_request_seconds", "Time of a request by route template.", ("route",)
        )
        self._tool_seconds = histogram(
            "recordari_tool_seconds",
            "Time of a call of a tool by outcome; `mcp`: the memory's own, `agent`: those that agents record.",
            ("kind", "tool", "outcome"),
        )
        self._run_tokens = counter(
            "recordari_run_tokens", "Tokens that agents report for runs, by tenant.", ("tenant", "direction")
        )
        self._run_cost = counter(
            "recordari_run_cost", "Cost that agents report for runs, by tenant.", ("tenant", "currency")
        )
        self._names: dict[str, set[str]] = {}
        self._masked = counter("recordari_masked", "Personal data and secrets masked in writes, by type.", ("type",))
        self._sources: dict[str, tuple[str, GaugeSource]] = {}
        self._spans = Spans(tracing=tracing)

    @contextmanager
    def measured(self, operation: str) -> Iterator[Measurement]:
        """Time a block as `operation`; its outcome is `ok` or the code of the error it raised."""
        measurement, outcome, start = Measurement(), "ok", time.perf_counter()
        with self._spans.of_operation(operation, measurement.figures):
            try:
                yield measurement
            except BaseException as error:
                outcome = outcome_of(error)
                raise
            finally:
                self._operations.labels(operation, outcome).observe(time.perf_counter() - start)

    def count_request(self, *, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def count_masked(self, counts: Mapping[str, int]) -> None:
        """Count personal data and secrets that were taken out of a text, by type."""
        for data_type, count in counts.items():
            self._masked.labels(data_type).inc(count)

    @contextmanager
    def tool_called(self, tool: str) -> Iterator[Callable[[str], None]]:
        """Time a call of one of the memory's own tools; the block says how it failed, by an error's code."""
        outcome, start = "ok", time.perf_counter()

        def failed(code: str) -> None:
            nonlocal outcome
            outcome = code

        with self._spans.of_tool(tool) as mark_failed:
            try:
                yield failed
            except BaseException as error:
                outcome = outcome_of(error)
                raise
            finally:
                self._tool_seconds.labels("mcp", tool, outcome).observe(time.perf_counter() - start)
                if outcome != "ok":
                    mark_failed(outcome)

    def count_agent_tool(self, tool: str, *, seconds: float, failed: bool) -> None:
        """Count a call that an agent made of a tool of its own, and recorded in a run."""
        known = self._named("tool", tool) if _TOOL_NAME.fullmatch(tool) else OTHER
        self._tool_seconds.labels("agent", known, "error" if failed else "ok").observe(seconds)

    def count_run(self, tenant_id: UUID, currency: str, usage: ReportedUsage | None) -> None:
        """Count what a turn or a run of a tenant used."""
        if usage is None:
            return
        tenant = self._named("tenant", str(tenant_id))
        self._run_tokens.labels(tenant, "in").inc(usage.tokens_in)
        self._run_tokens.labels(tenant, "out").inc(usage.tokens_out)
        if usage.cost:
            self._run_cost.labels(tenant, currency).inc(float(usage.cost))

    def _named(self, kind: str, name: str) -> str:
        """The name, or `other` when metrics tell as many apart already: each name is kept for good."""
        names = self._names.setdefault(kind, set())
        if name not in names and len(names) >= MOST_NAMES:
            return OTHER
        names.add(name)
        return name

    def watch(self, name: str, description: str, source: GaugeSource) -> None:
        """Show the figures by state of `source` (which may be async) as a gauge when metrics are read."""
        self._sources[name] = (description, source)

    async def render(self, *, by_tenant: bool = True) -> bytes:
        """All metrics as text, gauges of this process, the rest of all; `by_tenant`: also what names a tenant or its tools."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = self.registry
        if METRICS_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        families = list(registry.collect())
        if not by_tenant:
            families = [one for one in families if not any("tenant" in sample.labels for sample in one.samples)]
            for family in families:
                family.samples = [one for one in family.samples if one.labels.get("kind") != "agent"]
        read = CollectorRegistry()
        read.register(_Read([*families, *[await self._gauge(name) for name in self._sources]]))
        return generate_latest(read)

    async def _gauge(self, name: str) -> Metric:
        from prometheus_client.core import GaugeMetricFamily

        description, source = self._sources[name]
        gauge = GaugeMetricFamily(name, description, labels=("state",))
        try:
            figures = source()
            if inspect.isawaitable(figures):
                figures = await figures
        except RecordariError as error:
            # Leave out a gauge that cannot be read: the other metrics matter most at such a moment.
            _log.warning("gauge_unreadable", gauge=name, error=error)
            return gauge
        for state, figure in figures.items():
            gauge.add_metric([state], figure)
        return gauge


class _Read:
    """Metrics that were read just now."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


class Measurable(Protocol):
    """An object with a `Telemetry`, such as the resources of every verb."""

    @property
    def telemetry(self) -> Telemetry: ...


M = TypeVar("M", bound=Measurable)


def measured(
    operation: str,
) -> Callable[[Callable[Concatenate[M, P], Awaitable[R]]], Callable[Concatenate[M, P], Coroutine[Any, Any, R]]]:
    """Time every call of a function, whose first argument has the telemetry, as `operation`."""

    def decorate(
        function: Callable[Concatenate[M, P], Awaitable[R]],
    ) -> Callable[Concatenate[M, P], Coroutine[Any, Any, R]]:
        @functools.wraps(function)
        async def timed(first: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with first.telemetry.measured(operation):
                return await function(first, *args, **kwargs)

        return timed

    return decorate


_TOOL_NAME = re.compile(r"[A-Za-z0-9._:/-]{1,64}")


_log = get_log(__name__)
