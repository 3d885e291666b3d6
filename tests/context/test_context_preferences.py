"""A context is planned by the preferences of minutes ago, and planned again if they have changed."""

from __future__ import annotations

import pytest
from tests.statements import counted

from recordari.app import Memory
from recordari.config import Settings
from recordari.context.assemble import Context
from recordari.core.identity import Identity, Role
from recordari.tenants import tenants
from recordari.wiring import open_resources

QUESTION = "What did I say yesterday?"


def asked_from(context: Context) -> str:
    """The hour at which the time that was asked for begins."""
    assert context.trace is not None
    return str(context.trace["interval"]["start"])[11:16]


async def test_a_time_zone_that_another_process_changed_counts_in_the_next_context(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "SECONDS", 0.0)  # they are always read again
    async with open_resources(settings) as here, open_resources(settings) as there:
        tenant = await tenants.ensure_tenant(here, "test")
        identity = Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)
        ana = Memory(here, identity).acting_as(user="ana")
        assert asked_from(await ana.get_context(QUESTION, explain=True)) == "00:00"
        await Memory(there, identity).save_user("ana", time_zone="Asia/Tokyo")
        assert asked_from(await ana.get_context(QUESTION, explain=True)) == "15:00"


async def test_preferences_that_are_read_again_take_no_round_trip(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_resources(settings) as usual:
        tenant = await tenants.ensure_tenant(usual, "test")
        identity = Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)
        ana = Memory(usual, identity).acting_as(user="ana")
        await ana.get_context("kayak")
        with counted() as known:
            await ana.get_context("kayak")
    monkeypatch.setattr(tenants, "SECONDS", 0.0)
    async with open_resources(settings) as forgetful:
        ana = Memory(forgetful, identity).acting_as(user="ana")
        await ana.get_context("kayak")
        with counted() as read_again:
            await ana.get_context("kayak")
    assert read_again.statements["tenants.storage.find_user"] == 1
    assert read_again.round_trips == known.round_trips
