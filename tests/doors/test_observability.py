"""What operators watch: dashboards, alarms and runbooks fit the metrics, and spans reach a collector."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from pydantic import SecretStr
from tests.doors.rest_door import Door, open_door
from tests.otel_collector import running_collector
from tests.patience import until

from recordari.core.telemetry import MOST_NAMES, Telemetry
from recordari.kit.resources import Resources

ROOT = Path(__file__).parents[2]
ALERTS = (ROOT / "deploy" / "observability" / "alerts.yaml").read_text("utf-8")
DASHBOARD = json.loads((ROOT / "deploy" / "observability" / "grafana-dashboard.json").read_text("utf-8"))
RUNBOOKS = (ROOT / "docs" / "how-to" / "observe.md").read_text("utf-8")
CONTENT = "The orchard behind the mill belongs to Rosalind"


async def call_tool(door: Door, tool: str, arguments: object) -> dict[str, object]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"Accept": "application/json, text/event-stream", "Recordari-User": "rosalind"}
    answer = await door.request("POST", "/mcp", json=body, headers=headers)
    result: dict[str, object] = answer.json()["result"]
    return result


async def use(door: Door) -> None:
    """A bit of everything that is measured."""
    await call_tool(door, "remember_fact", {"content": CONTENT})
    assert not (await call_tool(door, "recall", {"query": "Who owns the orchard?"})).get("isError")
    assert (await call_tool(door, "recall", {"question": "Who owns the orchard?"}))["isError"]
    who = {"Recordari-User": "rosalind", "Recordari-Agent": "helper"}
    run = (await sent(door, "/v1/runs", {"run_id": "run-1", "currency": "EUR"}, who)).json()["run"]["run_id"]
    calls = [
        {"name": "search_flights", "arguments": "{}", "result": "none", "latency_ms": 40},
        {"name": "a secret sentence, no name", "arguments": "{}", "error": "it failed", "latency_ms": 1200},
    ]
    await sent(door, f"/v1/runs/{run}/tool_calls", {"calls": calls}, who)
    usage = {"tokens_in": 900, "tokens_out": 100, "cost": "0.25"}
    await sent(door, f"/v1/runs/{run}/complete", {"usage": usage}, who)


async def sent(door: Door, path: str, body: object, headers: dict[str, str]) -> httpx2.Response:
    answer = await door.request("POST", path, json=body, headers=headers)
    assert answer.is_success, answer.text
    return answer


async def test_dashboards_and_alarms_use_metrics_that_exist(resources: Resources) -> None:
    settings = resources.settings.model_copy(update={"metrics_token": SecretStr("for-prometheus")})
    async with open_door(replace(resources, settings=settings)) as door:
        await use(door)
        bearer = {"Authorization": "Bearer for-prometheus"}
        text = (await door.request("GET", "/metrics", key=None, headers=bearer)).text
        local = (await door.request("GET", "/metrics", key=None)).text
        tenant = door.memory.identity.tenant_id
    assert str(tenant) not in local and 'recordari_queue{state="waiting"}' in local
    assert 'recordari_tool_seconds_count{kind="mcp",outcome="ok",tool="recall"} 1.0' in text
    assert 'recordari_tool_seconds_count{kind="mcp",outcome="invalid_input",tool="recall"} 1.0' in text
    assert 'recordari_tool_seconds_count{kind="agent",outcome="ok",tool="search_flights"} 1.0' in text
    assert 'recordari_tool_seconds_count{kind="agent",outcome="error",tool="other"} 1.0' in text
    assert f'recordari_run_cost_total{{currency="EUR",tenant="{tenant}"}} 0.25' in text
    assert f'recordari_run_tokens_total{{direction="in",tenant="{tenant}"}} 900.0' in text
    assert 'recordari_queue{state="waiting"}' in text
    assert "orchard" not in text and "sentence" not in text

    samples = re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE)
    labels = {name: set(re.findall(r'(\w+)="', given)) for name, given in samples}
    states = {(name, state) for name, given in samples for state in re.findall(r'state="(\w+)"', given)}
    expressions = re.findall(r"expr: (.+)", ALERTS)
    expressions += [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(expressions) >= 25
    for expression in expressions:
        for name, given in re.findall(r"\b(recordari_\w+)(?:\{(.*?)\})?", expression):
            if name == "recordari_masked_total":
                continue  # nothing was masked
            assert name in labels, expression
            assert {label for label, _ in re.findall(r'(\w+)(!?=~?)"', given)} <= labels[name], expression
            for state in "|".join(re.findall(r'state=~?"([\w|]+)"', given)).split("|"):
                assert not state or (name, state) in states, expression


def test_every_alarm_has_a_runbook_and_every_runbook_an_alarm() -> None:
    alarms = re.findall(r"alert: (\w+)", ALERTS)
    assert len(alarms) == 10
    assert re.findall(r"^### (Recordari\w+)$", RUNBOOKS, re.MULTILINE) == alarms
    assert re.findall(r"runbook: docs/how-to/observe\.md#(\w+)", ALERTS) == [alarm.lower() for alarm in alarms]


async def test_names_that_metrics_keep_are_limited() -> None:
    telemetry = Telemetry()
    for number in range(MOST_NAMES + 50):
        telemetry.count_agent_tool(f"tool-{number}", seconds=0.1, failed=False)
    text = (await telemetry.render()).decode()
    counts = re.findall(r'recordari_tool_seconds_count\{.*tool="(.+?)"\} (\S+)', text)
    assert len(counts) == MOST_NAMES + 1
    assert dict(counts)["other"] == "50.0"


async def test_spans_come_out_of_a_collector_by_the_conventions_and_without_content(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    passed_on: list[bytes] = []
    with running_collector(tmp_path, passed_on) as address:
        provider = TracerProvider(resource=Resource({"service.name": "recordari"}))
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=address)))
        monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
        async with open_door(replace(resources, telemetry=Telemetry(tracing=True))) as door:
            await call_tool(door, "remember_fact", {"content": CONTENT})
            await call_tool(door, "recall", {"query": "Who owns the orchard?"})
            await call_tool(door, "recall", {"question": "Who owns the orchard?"})
        provider.shutdown()
        await until(lambda: [span.name for span in spans_of(passed_on)].count("execute_tool recall") == 2)
    spans = spans_of(passed_on)
    good, bad = (attributes(span) for span in spans if span.name == "execute_tool recall")
    assert (good["gen_ai.operation.name"], good["gen_ai.tool.name"]) == ("execute_tool", "recall")
    assert "error.type" not in good and bad["error.type"] == "invalid_input"  # it had a wrong argument
    (recall,) = (span for span in spans if span.name == "search_memory")
    assert attributes(recall)["gen_ai.operation.name"] == "search_memory"
    (count,) = (pair.value.int_value for pair in recall.attributes if pair.key == "gen_ai.memory.record.count")
    assert count == 1
    by_id = {span.span_id: span for span in spans}
    assert by_id[recall.parent_span_id].name == "execute_tool recall"
    failed = [span.name for span in spans if span.status.code == Status.STATUS_CODE_ERROR]
    assert failed == ["execute_tool recall"]
    assert "upsert_memory" in {span.name for span in spans}
    assert not any(word in body for body in passed_on for word in (b"orchard", b"Rosalind"))


def spans_of(bodies: list[bytes]) -> list[Span]:
    """All spans, in the order of their beginning."""
    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    spans = [
        span for one in requests for group in one.resource_spans for scope in group.scope_spans for span in scope.spans
    ]
    return sorted(spans, key=lambda span: span.start_time_unix_nano)


def attributes(span: Span) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in span.attributes}
