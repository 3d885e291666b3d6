"""The alert rules as Prometheus itself reads them: each alarm fires on its trouble, and none on a quiet day."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "deploy" / "observability"
RULES = FOLDER / "alerts.yaml"
PROMTOOL = shutil.which("promtool")

# What Prometheus scraped: the values at each step, written as `first+each time x times`.
QUIET = {
    'up{job="recordari"}': "1x60",
    'recordari_requests_total{status="200"}': "0+600x60",
    'recordari_requests_total{status="500"}': "0+1x60",
    'recordari_requests_total{status="503"}': "0+5x60",
    'recordari_requests_total{status="401"}': "0+5x60",
    'recordari_operation_seconds_bucket{operation="recall",le="1.0"}': "0+600x60",
    'recordari_operation_seconds_bucket{operation="recall",le="2.5"}': "0+600x60",
    'recordari_operation_seconds_bucket{operation="recall",le="+Inf"}': "0+600x60",
    'recordari_queue{state="oldest_seconds"}': "2x60",
    'recordari_queue{state="dead_letters"}': "0x60",
    'recordari_pool{state="requests_waiting"}': "0x60",
    'recordari_pool{state="pool_available"}': "4x60",
    'recordari_tool_seconds_count{kind="mcp",tool="recall",outcome="ok"}': "0+60x60",
    'recordari_tool_seconds_count{kind="mcp",tool="recall",outcome="invalid_input"}': "0+1x60",
}
TROUBLE = {
    "RecordariDown": {'up{job="recordari"}': "1x30 0x30"},
    "RecordariErrors": {'recordari_requests_total{status="500"}': "0+20x60"},
    "RecordariOverloaded": {'recordari_requests_total{status="503"}': "0+60x60"},
    "RecordariSlowRecall": {'recordari_operation_seconds_bucket{operation="recall",le="1.0"}': "0+500x60"},
    "RecordariWorkWaits": {'recordari_queue{state="oldest_seconds"}': "2x30 360+60x30"},
    "RecordariDeadLetters": {'recordari_queue{state="dead_letters"}': "0x30 3x30"},
    "RecordariPoolExhausted": {
        'recordari_pool{state="requests_waiting"}': "7x60",
        'recordari_pool{state="pool_available"}': "0x60",
    },
    "RecordariRefusedKeys": {'recordari_requests_total{status="401"}': "0+400x60"},
    "RecordariToolsFail": {'recordari_tool_seconds_count{kind="mcp",tool="recall",outcome="invalid_input"}': "0+30x60"},
}
# It compares an hour with the day before: two days in steps of ten minutes.
COST = 'recordari_run_cost_total{tenant="acme",currency="EUR"}'
COSTS = {"": {COST: "0+2x288"}, "RecordariCostJumps": {COST: "0+2x280 600+40x8"}}


def require_promtool() -> str:
    if PROMTOOL is None:
        reason = "there is no promtool here (tests/setup-system installs Prometheus)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return PROMTOOL


def day(alarm: str, series: dict[str, str], step: int, steps: int) -> dict[str, object]:
    """What promtool replays: these series at steps of some minutes, and the alarm that fires at their end, if any."""
    expected = [{"labels": f'{{alertname="{alarm}"}}', "value": 1}] if alarm else []
    asked = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{step * steps}m",
        "exp_samples": expected,
    }
    given = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": f"{step}m", "input_series": given, "promql_expr_test": [asked]}


def replay(file: Path, step: int, days: list[dict[str, object]]) -> None:
    """Let Prometheus' own tool replay them; JSON is YAML."""
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": f"{step}m", "tests": days}))
    done = subprocess.run([require_promtool(), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alarm_fires_on_its_trouble_and_none_on_a_quiet_day(tmp_path: Path) -> None:
    assert [*TROUBLE, "RecordariCostJumps"] == re.findall(r"alert: (\w+)", RULES.read_text("utf-8"))
    hours = {"": {}, **TROUBLE}
    replay(tmp_path / "hours.yaml", 1, [day(name, {**QUIET, **changed}, 1, 60) for name, changed in hours.items()])
    replay(tmp_path / "days.yaml", 10, [day(name, series, 10, 288) for name, series in COSTS.items()])


def test_prometheus_understands_every_question_of_the_dashboard(tmp_path: Path) -> None:
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text("utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [
        {"record": f"panel_{number}", "expr": re.sub(r"\$\w+", "5m", one)} for number, one in enumerate(asked, start=1)
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([require_promtool(), "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(asked)} rules found" in done.stdout
