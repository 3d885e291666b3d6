"""Databases through REST and the command line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.connected import sqlite_of_a_user
from tests.doors.rest_door import logs, open_door
from tests.doors.test_cli import PROGRAM

from recordari.config import Settings
from recordari.kit.resources import Resources

SQL = "SELECT status, count(*) AS n FROM orders GROUP BY status ORDER BY status"
ROWS = [["open", 667], ["paid", 666], ["refunded", 667]]


async def test_a_database_lives_through_rest_and_its_dsn_is_never_seen(resources: Resources, tmp_path: Path) -> None:
    sqlite_of_a_user(tmp_path / "canary.db")
    body = {"name": "shop", "description": "Sales", "dsn": "sqlite:///canary.db", "tables": {"orders": None}}
    async with open_door(resources) as door:
        with logs() as log:
            added = await door.request("POST", "/v1/databases", json=body)
            assert added.status_code == 201, added.text
            path = f"/v1/databases/{added.json()['database_id']}"
            answer = await door.request("POST", "/v1/query_data", key="agent", json={"sql": SQL})
            assert (answer.json()["columns"], answer.json()["rows"]) == (["status", "n"], ROWS)
            refused = await door.request("POST", "/v1/query_data", key="agent", json={"sql": "DROP TABLE orders"})
            assert refused.status_code == 422 and "exactly one SELECT" in refused.json()["detail"]
            asked = await door.request("POST", "/v1/query_data", json={"question": "How many?"})
            assert asked.status_code == 422 and "RECORDARI_LLM_MODEL" in asked.json()["detail"]
            changed = await door.request("PATCH", path, json={"tables": {"orders": ["id", "status"]}})
            assert changed.json()["tables"] == {"orders": ["id", "status"]}
            assert (await door.request("POST", f"{path}/refresh")).json()["schema"][0]["name"] == "orders"
            bad = await door.request("POST", "/v1/databases", json={**body, "name": "x", "dsn": "canary://x"})
            assert bad.status_code == 422
            listed = await door.request("GET", "/v1/databases", key="agent")
            assert [each["name"] for each in listed.json()] == ["shop"]
            assert (await door.request("DELETE", path)).status_code == 204
            assert (await door.request("GET", path)).status_code == 404
        everything = added.text + answer.text + bad.text + listed.text + log.getvalue()
        assert "canary" not in everything
        assert "canary" not in (await door.request("GET", "/v1/audit")).text


def test_a_database_lives_through_the_command_line(settings: Settings, tmp_path: Path) -> None:
    sqlite_of_a_user(tmp_path / "shop.db")
    assert settings.database_url is not None
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RECORDARI_")},
        "COLUMNS": "200",
        "RECORDARI_HOME": str(tmp_path),
        "RECORDARI_DATABASE_FILES": str(tmp_path),
        "RECORDARI_DATABASE_URL": settings.database_url.get_secret_value(),
        "RECORDARI_AUTO_MIGRATE": "false",
        "RECORDARI_EMBEDDING_PROFILE": "fast",
        "RECORDARI_EMBEDDING_PROVIDER": "none",
    }

    def run(*arguments: str, given: str = "", code: int = 0) -> str:
        done = subprocess.run(
            [PROGRAM, "database", *arguments],
            env=environment,
            cwd=tmp_path,
            input=given,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    made = run("add", "shop", "--table", "orders(id,status)", "--json", given="sqlite:///shop.db\n")
    assert json.loads(made)["tables"] == {"orders": ["id", "status"]} and "shop.db" not in made
    assert "shop" in run("list")
    assert "no such column" in run("ask", "--sql", "SELECT total FROM orders", code=1)
    assert json.loads(run("ask", "--sql", SQL, "--json"))["rows"] == ROWS
    assert json.loads(run("refresh", "shop", "--json"))["schema"][0]["name"] == "orders"
    run("remove", "shop", "--yes")
    assert "there is no database 'shop'" in run("refresh", "shop", code=1)


@pytest.mark.parametrize("missing", [["--table", "orders"], ["shop"]])
def test_add_needs_a_name_and_a_table(missing: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "database", "add", *missing],
        env={"PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
