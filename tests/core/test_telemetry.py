"""Logs without content, metrics in a registry of their own, spans without messages."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from recordari.core.identity import Role
from recordari.core.telemetry import Telemetry, configure_logging, get_log, measured, request_id, safe
from recordari.errors import DatabaseUnavailable, NotFound

SECRET = "the patient's name"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the process writes with JSON logging; the loggers are as before afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure_logging(form="json", level="debug", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("uvicorn.access").disabled = False
    structlog.reset_defaults()


def read(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_value_is_logged_only_when_it_cannot_be_content() -> None:
    tenant = UUID(int=7)
    assert [safe(value) for value in (3, 0.5, True, None, tenant, Role.ADMIN, "key:17")] == [
        3, 0.5, True, None, str(tenant), "admin", "key:17",
    ]  # fmt: skip
    assert safe(SECRET) == "<18 characters>"
    assert safe("x" * 200) == "<200 characters>"
    assert safe([SECRET]) == "<1 entries>"
    assert safe(ValueError(SECRET)) == "ValueError"
    assert safe(object()) == "<object>"


def test_an_event_carries_its_fields_and_the_request(lines: io.StringIO) -> None:
    token = request_id.set("request-77")
    get_log("recordari.test").info("saved", count=2, text=SECRET)
    request_id.reset(token)
    (line,) = read(lines)
    assert (line["event"], line["count"], line["request_id"]) == ("saved", 2, "request-77")
    assert (line["level"], line["logger"]) == ("info", "recordari.test")
    assert SECRET not in lines.getvalue()


def int_of(text: str) -> int:
    return int(text)


def test_an_error_is_logged_by_class_and_place(lines: io.StringIO) -> None:
    with pytest.raises(ValueError, match="patient") as caught:
        int_of(SECRET)
    get_log("recordari.test").error("failed", error=caught.value)
    (line,) = read(lines)
    assert line["error"] == "ValueError"
    assert "test_telemetry.py" in str(line["at_code"])
    assert SECRET not in lines.getvalue()


def test_code_that_logs_through_structlog_is_held_to_the_same_rules(lines: io.StringIO) -> None:
    log = structlog.get_logger("recordari.worker")
    log.info("claimed", count=2, text=SECRET)
    log.warning("slow", error=ValueError(SECRET))
    try:
        int_of(SECRET)
    except ValueError:
        log.exception("failed", job_id=7)
    claimed, slow, failed = read(lines)
    assert (claimed["event"], claimed["count"], claimed["logger"]) == ("claimed", 2, "recordari.worker")
    assert slow["error"] == "ValueError"
    assert (failed["error"], failed["level"], failed["job_id"]) == ("ValueError", "error", 7)
    assert "int_of" in str(failed["at_code"])
    assert SECRET not in lines.getvalue()


def test_other_packages_are_logged_without_their_values(lines: io.StringIO) -> None:
    foreign = logging.getLogger("psycopg.pool")
    foreign.warning("error connecting in %r: %s", "pool-1", SECRET)
    foreign.warning(f"already formatted {SECRET}")
    try:
        int_of(SECRET)
    except ValueError:
        foreign.exception("it broke")
    logging.getLogger("uvicorn.error").info("Application startup complete.")
    logging.getLogger("uvicorn.access").info('%s - "%s"', "127.0.0.1", SECRET)
    events = [line["event"] for line in read(lines)]
    assert events == [
        "error connecting in %r: %s",
        "foreign_log",
        "foreign_log",
        "Application startup complete.",
    ]
    assert read(lines)[2]["error"] == "ValueError"
    assert SECRET not in lines.getvalue()


def test_a_console_gets_text(lines: io.StringIO) -> None:
    stream = io.StringIO()
    configure_logging(form="console", level="warning", stream=stream)
    get_log("recordari.test").warning("slow", ms=12)
    get_log("recordari.test").info("not shown")
    assert "slow" in stream.getvalue()
    assert "ms=12" in stream.getvalue()
    assert "not shown" not in stream.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    telemetry: Telemetry = field(default_factory=Telemetry)


@measured("look")
async def look(carrier: Carrier, found: bool) -> str:
    if not found:
        raise NotFound
    return "it"


async def test_an_operation_is_timed_by_outcome() -> None:
    carrier = Carrier()
    assert await look(carrier, True) == "it"
    with pytest.raises(NotFound):
        await look(carrier, False)
    with pytest.raises(KeyError), carrier.telemetry.measured("block"):
        raise KeyError(SECRET)
    text = (await carrier.telemetry.render()).decode()
    assert 'recordari_operation_seconds_count{operation="look",outcome="ok"} 1.0' in text
    assert 'recordari_operation_seconds_count{operation="look",outcome="not_found"} 1.0' in text
    assert 'recordari_operation_seconds_count{operation="block",outcome="error"} 1.0' in text


async def test_two_sets_of_metrics_do_not_mix() -> None:
    one, two = Telemetry(), Telemetry()
    one.count_request(method="GET", route="/v1/users", status=200, seconds=0.1)
    assert 'route="/v1/users"' in (await one.render()).decode()
    assert 'route="/v1/users"' not in (await two.render()).decode()


async def test_gauges_are_read_when_asked_for_and_one_that_fails_is_left_out() -> None:
    telemetry, waiting = Telemetry(), {"todo": 1.0}

    async def queue() -> dict[str, float]:
        return waiting

    def away() -> dict[str, float]:
        raise DatabaseUnavailable

    telemetry.watch("recordari_queue", "Jobs.", queue)
    telemetry.watch("recordari_away", "Nothing.", away)
    assert 'recordari_queue{state="todo"} 1.0' in (await telemetry.render()).decode()
    waiting = {"doing": 5.0}
    text = (await telemetry.render()).decode()
    assert 'recordari_queue{state="doing"} 5.0' in text
    assert 'state="todo"' not in text
    assert "recordari_away{" not in text


async def test_a_span_has_figures_and_the_class_of_an_error_but_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    telemetry = Telemetry(tracing=True)
    with telemetry.measured("recall") as measurement:
        measurement.note(records=20, degraded=False)
    with pytest.raises(ValueError, match="patient"), telemetry.measured("remember"):
        raise ValueError(SECRET)
    recall, remember = exporter.get_finished_spans()
    assert (recall.name, remember.name) == ("search_memory", "upsert_memory")
    assert recall.attributes is not None
    assert recall.attributes["recordari.operation"] == "recall"
    assert recall.attributes["gen_ai.memory.record.count"] == 20 and recall.attributes["recordari.degraded"] is False
    assert remember.attributes is not None
    assert remember.attributes["error.type"] == "error"
    assert SECRET not in remember.to_json()
    provider.shutdown()


def test_importing_telemetry_loads_none_of_the_heavy_packages() -> None:
    code = (
        "import sys, recordari.core.telemetry;"
        "print([m for m in ('structlog', 'prometheus_client', 'opentelemetry') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
