"""The short form of `make isolation`: random requests over every operation, tool and feed of a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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
