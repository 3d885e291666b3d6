"""X4: the standing profile of a user or an agent, kept up to date, never telling what was forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from tests.working import work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Role
from recordari.core.tokens import estimated_tokens
from recordari.errors import InvalidInput, Unauthenticated
from recordari.sessions.rules.summaries import Said
from recordari.sessions.summaries import Summariser


@pytest.fixture
def ana(memory: Memory) -> Memory:
    return memory.acting_as(user="ana")


async def test_a_profile_groups_what_is_known_by_category(ana: Memory) -> None:
    await ana.remember_fact("Ana lives in Lisbon", category="personal")
    await ana.remember_fact("Ana prefers tea", category="preference")
    await ana.remember_fact("Ana reviews code on Fridays", category="workflow")
    await ana.remember_fact("Ana owns a bicycle")
    found = await ana.profile()
    assert found.content.splitlines() == [
        "Personal: Ana owns a bicycle. Ana lives in Lisbon.",
        "Preferences: Ana prefers tea.",
        "Way of working: Ana reviews code on Fridays.",
    ]
    assert found.facts == 4


async def test_pinned_then_sure_then_new_facts_come_first(ana: Memory) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    said = [("old and sure", 0.9, 0), ("new and sure", 0.9, 5), ("new but doubtful", 0.3, 9), ("pinned", 0.2, 1)]
    kept = {
        content: await ana.remember_fact(
            content, category="personal", confidence=confidence, event_time=start + timedelta(days=day)
        )
        for content, confidence, day in said
    }
    await ana.pin_item(kept["pinned"].id)
    assert (await ana.profile()).content == "Personal: pinned. new and sure. old and sure. new but doubtful."


async def test_what_was_stated_comes_before_what_was_extracted(ana: Memory) -> None:
    await ana.remember_fact("Ana sails", category="personal", metadata={"extractor": "offline"}, confidence=1.0)
    await ana.remember_fact("Ana paints boats", category="personal", confidence=0.6)
    assert (await ana.profile()).content == "Personal: Ana paints boats. Ana sails."


async def test_a_fact_that_says_less_than_another_is_left_out(ana: Memory) -> None:
    await ana.remember_fact("Ana prefers tea", category="preference")
    await ana.remember_fact("Ana prefers tea without sugar", category="preference")
    assert (await ana.profile()).content == "Preferences: Ana prefers tea without sugar."


async def test_learnt_preferences_are_part_of_the_profile_and_leave_it_when_they_end(ana: Memory) -> None:
    await ana.remember_fact("Ana lives in Lisbon", category="personal")
    learnt = await ana.remember("Answer in metric units", kind="procedure", scope="user")
    assert (await ana.profile()).content == "Personal: Ana lives in Lisbon.\nPreferences: Answer in metric units."
    await ana.forget(learnt.id)
    assert (await ana.profile()).content == "Personal: Ana lives in Lisbon."


async def test_a_profile_stays_short_however_much_is_known(ana: Memory) -> None:
    for number in range(60):
        await ana.remember_fact(f"Ana has visited the city number {number} of her list", category="personal")
    await ana.remember_fact("Ana prefers tea", category="preference")
    found = await ana.profile()
    assert estimated_tokens(found.content) <= 300
    assert "Ana prefers tea" in found.content
    assert 5 < found.facts < 61


async def test_what_is_forgotten_superseded_or_invalid_leaves_the_profile_at_once(ana: Memory) -> None:
    city = await ana.remember_fact("Ana lives in Lisbon", category="personal")
    drink = await ana.remember_fact("Ana drinks coffee", category="preference")
    team = await ana.remember_fact("Ana supports Benfica", category="preference")
    assert "Lisbon" in (await ana.profile()).content
    await ana.forget(city.id)
    assert "Lisbon" not in (await ana.profile()).content
    await ana.edit_item(drink.id, "Ana drinks tea")
    assert (await ana.profile()).content == "Preferences: Ana drinks tea. Ana supports Benfica."
    await ana.invalidate_item(team.id)
    assert (await ana.profile()).content == "Preferences: Ana drinks tea."


async def test_the_stored_profile_does_not_keep_what_was_forgotten(ana: Memory, settings: Settings) -> None:
    secret = await ana.remember_fact("Ana is afraid of geese", category="personal")
    await ana.profile()
    await ana.forget(secret.id)
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value()) as connection:
        assert connection.execute("SELECT content FROM recordari.profiles").fetchall() == [("",)]


async def test_an_erased_user_has_no_profile_left(memory: Memory, ana: Memory, settings: Settings) -> None:
    await ana.remember_fact("Ana lives in Lisbon")
    assert (await ana.profile()).facts == 1
    await memory.erase_user("ana")
    assert (await memory.profile(user="ana")).content == ""
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value()) as connection:
        assert connection.execute("SELECT count(*) FROM recordari.profiles").fetchone() == (0,)


async def test_a_job_keeps_the_profile_up_to_date(ana: Memory, settings: Settings) -> None:
    await ana.remember_fact("Ana lives in Lisbon", category="personal")
    await ana.profile()
    await ana.remember_fact("Ana moved to Porto", category="personal")
    await work_off(ana, "profile")
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value()) as connection:
        ((content,),) = connection.execute("SELECT content FROM recordari.profiles").fetchall()
    assert "Porto" in content


async def test_a_user_sees_no_other_users_profile(memory: Memory, ana: Memory) -> None:
    await ana.remember_fact("Ana lives in Lisbon")
    bob = memory.bound(replace(memory.identity, role=Role.AGENT)).acting_as(user="bob")
    assert await bob.profile(user="ana") == await bob.profile(user="nobody")
    assert (await memory.profile(user="ana")).facts == 1


async def test_an_agent_has_a_profile_of_its_own(memory: Memory) -> None:
    support = memory.acting_as(agent="support")
    await support.remember_fact("Refunds need an order number", scope="agent", category="workflow")
    assert (await support.profile()).content == "Way of working: Refunds need an order number."
    assert (await memory.profile(agent="support")).facts == 1
    assert (await memory.profile(agent="sales")).content == ""


async def test_whose_profile_is_meant_must_be_clear(memory: Memory) -> None:
    with pytest.raises(Unauthenticated):
        await memory.profile()
    with pytest.raises(InvalidInput, match="name one of them"):
        await memory.profile(user="ana", agent="support")


class Model:
    """A summariser that answers like a model, or fails like one."""

    name = "model"
    fails = False

    async def summarise(self, previous: str, said: Sequence[Said], *, most_tokens: int) -> str:
        if self.fails:
            raise RuntimeError("no answer")
        return "In short: " + "; ".join(one.content for one in said)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_model_writes_the_profile_where_there_is_one_and_its_failure_costs_nothing(
    ana: Memory, fails: bool
) -> None:
    model = Model()
    model.fails = fails
    smart = Memory(ana.resources.replacing(Summariser, model), ana.identity)
    await smart.remember_fact("Ana lives in Lisbon", category="personal")
    await smart.profile()
    await smart.remember_fact("Ana drinks tea", category="personal")
    await work_off(smart, "profile")
    found = await smart.profile()
    assert "Lisbon" in found.content and "tea" in found.content
    assert found.writer == ("offline" if fails else "model")
