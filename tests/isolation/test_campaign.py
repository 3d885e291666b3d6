"""The short form of `make isolation`: random requests over every operation, tool and feed of a real server."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

ROOT = Path(__file__).parents[2]
REQUESTS = int(os.environ.get("RECORDARI_TEST_REQUESTS", "400"))


@pytest.mark.timeout(1200)
def test_random_requests_of_users_and_tenants_get_nothing_of_each_other() -> None:
    command = [sys.executable, "bench/isolation.py", "--requests", str(REQUESTS), "--seed", "13"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    compared = re.search(r"(\d+) requests with ids of others", done.stdout)
    assert compared is not None and int(compared[1]) > REQUESTS // 10, done.stdout
    asked = re.search(r"(\d+) of (\d+) operations asked, (\d+) with success", done.stdout)
    assert asked is not None and int(asked[1]) > int(asked[2]) // 2, done.stdout
    assert int(asked[3]) > int(asked[2]) // 4, "what never succeeds is not attacked"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return import_module("isolation")


async def test_what_a_tool_writes_for_all_users_counts_as_shared(bench: Any) -> None:
    """Else the campaign writes a private text over it, and then finds that text with everybody."""
    ana = bench.Sender(tenant="red", name="ana", key="", key_id="", draw=random.Random(1), user="ana", common_word="q")
    attack = bench.Attack(None, [ana], [])
    written, read = str(uuid4()), str(uuid4())
    for one, is_writing in ((written, True), (read, False)):
        request = bench.Request(
            operation="/mcp:a_tool", method="POST", path="/mcp", is_shared=True, is_writing_tool=is_writing
        )
        said = json.dumps({"result": {"structuredContent": {"id": one, "was_new": True}}})
        attack._learn(ana, request, bench.Answer(status=200, text=said))
    assert written in attack._common and read not in attack._common


def test_who_opens_a_session_under_a_strangers_id_has_one_of_that_id(bench: Any) -> None:
    """Else the campaign takes the sender's own session for somebody else's."""
    one = str(uuid4())
    path = f"/v1/sessions/{one}/messages"
    said = bench.Request(operation="add_messages", method="POST", path=path, names={"session_id": one})
    acting = bench.Request(operation="recall", method="POST", path="/v1/recall", headers={"Recordari-Run": one})
    item = bench.Request(operation="edit", method="PATCH", path=f"/v1/items/{one}", names={"item_id": one})
    assert bench._is_chosen(one, said) and bench._is_chosen(one, acting) and not bench._is_chosen(one, item)
