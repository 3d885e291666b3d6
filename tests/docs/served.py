"""A server as `recordari serve` starts it for a reader of the documentation, in a home of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.folders import open_folder
from tests.local_models import require_model
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT

from recordari.config import Settings

RUNNER = """
import ast, asyncio, inspect, json, sys, traceback
space = {"__name__": "__main__"}
runner = asyncio.Runner()
for line in sys.stdin:
    try:
        code = compile(json.loads(line), "<documentation>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        async def run():
            waiting = eval(code, space)
            if inspect.isawaitable(waiting):
                await waiting
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(run())
        else:
            eval(code, space)  # it may call asyncio.run itself
        said = ""
    except BaseException:
        said = traceback.format_exc()
    print("\\n\\x00" + json.dumps(said), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where the server is, what opens it, and the environment of a reader's shell."""

    address: str
    key: str
    environment: dict[str, str]
    names: dict[str, str]
    """What stands on a page, and what it is for us: addresses and the key."""

    def written_for_us(self, code: str) -> str:
        """The block with a reader's own addresses and key in place of those of the page."""
        for theirs, ours in self.names.items():
            code = code.replace(theirs, ours)
        return code

    def run_shell(self, code: str, folder: Path) -> str:
        """Run a block of a shell; what it printed. It must end well."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.written_for_us(code)],
            env=self.environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n--- printed\n{done.stdout}\n--- errors\n{done.stderr}"
        return done.stdout


class Interpreter:
    """A Python in which the blocks of one page run one after the other, as a reader would type them."""

    def __init__(self, served: Served, folder: Path) -> None:
        self._served = served
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", RUNNER],
            env=served.environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str) -> str:
        """Run a block; what it printed. It must not raise."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._served.written_for_us(code)) + "\n")
        self._process.stdin.flush()
        printed = ""
        for line in self._process.stdout:
            if line.startswith("\0"):
                error = json.loads(line[1:])
                assert not error, f"{code}\n---\n{error}"
                return printed
            printed += line
        raise AssertionError(f"{code}\n--- the interpreter ended")

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=PATIENCE)


@contextmanager
def serving(names: dict[str, str]) -> Iterator[Served]:
    """A server that is ready, and stopped at the end; `names` are what else a page means for us."""
    require_model("potion-base-8M")
    home = open_folder("recordari-docs-")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECORDARI_")}
    environment = {
        **kept,
        **PATIENT_ENVIRONMENT,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        "RECORDARI_HOME": str(home),
        "RECORDARI_CACHE_DIR": str(Settings().cache_dir),
        "RECORDARI_EMBEDDING_PROFILE": "fast",
        "RECORDARI_OFFLINE": "true",
    }
    command = [sys.executable, "-m", "recordari", "serve", "--port", "0"]
    process = subprocess.Popen(
        command, env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        address, key = _told(process.stdout, process)
        reader = {**environment, "KEY": key, "RECORDARI_KEY": key, "RECORDARI_URL": address}
        ours = {"http://127.0.0.1:8765": address, "rcd_…": key, **names}
        yield Served(address=address, key=key, environment=reader, names=ours)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        shutil.rmtree(home, ignore_errors=True)


def _told(output: IO[str], process: subprocess.Popen[str]) -> tuple[str, str]:
    """The address and the development key that the server prints."""
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    said = ""
    try:
        for line in output:
            said += line
            key, address = re.search(r"rcd_[\w.~-]+", said), re.search(r"http://127\.0\.0\.1:\d+", said)
            if key and address:
                return address.group(), key.group()
    finally:
        late.cancel()
    raise AssertionError(f"the server did not start: {said}")
