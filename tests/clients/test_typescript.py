"""The TypeScript client: its types are those of the routes, and `make test-typescript` runs it against a real server."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from tests.doors.proxied import proxied
from tests.hosts.models import Asked, imitation
from tests.hosts.serving import serving, workbench
from tests.patience import PATIENCE
from tools.web import SCHEMA, written

from recordari.kit.resources import Resources

FOLDER = SCHEMA.parents[1]
with_node = pytest.mark.skipif(
    not os.environ.get("RECORDARI_TEST_TYPESCRIPT"), reason="run it with `make test-typescript`"
)


def answer(asked: Asked) -> str:
    """What the imitated model says; the one that is called so repeats what it was shown."""
    repeated = "You told me: the mast of Halcyon was replaced in the spring of 2024. Shall I go on?"
    return repeated if asked.body.get("model") == "repeats" else "All right, noted."


def test_the_types_are_those_of_the_routes() -> None:
    assert SCHEMA.read_text("utf-8") == written(), "run `make routes`"


async def run(*command: str, folder: Path, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, out.decode()
    return out.decode()


@with_node
async def test_the_client_and_its_adapters_work_with_a_real_server(resources: Resources, tmp_path: Path) -> None:
    bench = await workbench(resources, tmp_path)
    key = (await bench.memory.acting_as(user=None).create_key("typescript", role="admin")).key
    with imitation(answer) as model:
        async with serving(bench.resources), proxied(bench, model) as proxy:
            url = f"http://127.0.0.1:{bench.resources.settings.port}"
            tests = sorted(str(file) for file in (FOLDER / "test").glob("*.test.mjs"))
            environment = {"RECORDARI_URL": url, "RECORDARI_KEY": key, "MODEL_URL": model.url}
            environment |= {"PROXY_URL": proxy.url, "PROXY_KEY": proxy.key}
            print(await run("node", "--test", *tests, folder=FOLDER, **environment))


@with_node
async def test_the_code_of_the_pages_has_the_types_of_the_real_packages() -> None:
    options = [
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--module",
        "nodenext",
        "--target",
        "es2023",
        "--types",
        "node",
    ]
    await run("node_modules/.bin/tsc", *options, "test/types.ts", folder=FOLDER)


@with_node
async def test_the_client_needs_nothing_of_node(resources: Resources, tmp_path: Path) -> None:
    bench = await workbench(resources, tmp_path)
    key = (await bench.memory.acting_as(user=None).create_key("typescript", role="admin")).key
    async with serving(bench.resources):
        url = f"http://127.0.0.1:{bench.resources.settings.port}"
        for program in (["node"], ["deno", "run", "--allow-net=127.0.0.1"], ["bun", "run"]):
            out = await run(*program, "test/everywhere.mjs", url, key, folder=FOLDER)
            assert "all right" in out, out


@with_node
async def test_the_package_installs_into_an_empty_project(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    assert npm is not None
    packed = (await run(npm, "pack", "--silent", "--pack-destination", str(tmp_path), folder=FOLDER)).split()[-1]
    project = tmp_path / "empty"
    project.mkdir()
    (project / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}')
    await run(npm, "install", "--silent", "--no-audit", "--no-fund", f"../{packed}", folder=project)
    program = (
        'import {Client} from "recordari"; import "recordari/ai-sdk"; const {recall, export: lines} = new Client({key: "k"}); '
        "console.log(typeof recall, typeof lines)"
    )
    assert "function function" in await run("node", "--input-type=module", "-e", program, folder=project)
    assert [entry.name for entry in (project / "node_modules").iterdir() if not entry.name.startswith(".")] == [
        "recordari"
    ]
