"""`recordari self-check`: what an operator runs after an upgrade."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.test_cli import Cli
from tests.patience import PATIENT_ENVIRONMENT
from tests.ports import free_port

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.models.registry import find_model
from recordari.operations.doctor import Check, State, check_machine
from recordari.operations.self_check import self_check
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources


def states(checks: list[Check]) -> dict[str, State]:
    return {check.name: check.state for check in checks}


async def remembered(memory: Memory) -> list[str]:
    return [item.content for item in (await memory.list_items(state="any")).items]


async def test_it_uses_memory_and_leaves_nothing_behind(memory: Memory) -> None:
    await memory.acting_as(user="ines").remember_fact("Ines keeps bees on the roof")
    async with background_worker(memory.resources):
        checks = await self_check(memory.resources, memory.identity)
    steps = ["write", "background work", "recall", "context", "isolation", "erasure"]
    assert states(checks) == dict.fromkeys(steps, State.OK), checks
    assert await remembered(memory) == ["Ines keeps bees on the roof"]


async def test_a_step_that_fails_says_what_to_do_and_leaves_nothing_behind_either(settings: Settings) -> None:
    silent = {
        "embedding_profile": "best",
        "embedding_provider": "tei",
        "embedding_url": f"http://127.0.0.1:{free_port()}",
        "embedding_model": "nobody answers",
    }
    async with open_resources(settings.model_copy(update=silent)) as resources:
        tenant = await tenants.ensure_tenant(resources, "test")
        memory = Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))
        checks = await self_check(resources, memory.identity, wait=0.1)
        assert states(checks) == {"write": State.OK, "background work": State.FAIL, "erasure": State.OK}, checks
        assert "start a worker" in checks[1].advice
        assert await remembered(memory) == []


def test_a_cache_that_cannot_be_written_is_well_if_it_has_the_models(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recordari.operations.doctor.os.access", lambda *_: False)  # root may write everywhere

    def cache(**changes: object) -> State:
        return states(check_machine(settings.model_copy(update=changes)))["cache folder"]

    (tmp_path / "models").mkdir()
    assert cache(cache_dir=tmp_path, embedding_profile="fast") is State.FAIL
    for file in find_model("potion-base-8M").files:
        place = tmp_path / "models" / "potion-base-8M" / file.name
        place.parent.mkdir(exist_ok=True)
        with place.open("wb") as made:
            made.truncate(file.size)
    assert cache(cache_dir=tmp_path, embedding_profile="fast") is State.OK


def test_the_command_waits_as_long_as_it_is_told(settings: Settings, tmp_path: Path) -> None:
    assert settings.database_url is not None
    cli = Cli(
        tmp_path,
        RECORDARI_HOME=str(tmp_path),
        RECORDARI_DATABASE_URL=settings.database_url.get_secret_value(),
        RECORDARI_EMBEDDING_PROVIDER="tei",
        RECORDARI_EMBEDDING_URL=f"http://127.0.0.1:{free_port()}",
        RECORDARI_EMBEDDING_MODEL="nobody answers",
        **PATIENT_ENVIRONMENT,
    )
    found = {check["name"]: check["found"] for check in cli.json("self-check", "--wait", "2", code=1)["checks"]}
    assert found["background work"] == "the item was not embedded within 2 s"
