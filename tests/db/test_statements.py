"""How often a verb goes to the database: each has a budget, so that nobody adds a round trip unseen.

The counts are of a memory in use: what a process reads once in a while is known already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.statements import counted
from tests.working import work_off

from recordari.app import Memory
from recordari.sessions.rules.window import MessageRole, NewMessage

BUDGETS = {
    # verb: round trips, statements
    "remember": (1, 1),
    "recall": (2, 2),
    "recall without a session": (1, 1),
    "messages": (1, 2),
    "context": (2, 10),
}
"""The statements of one round trip are sent together; those that bind a transaction are not counted."""


def two(number: int) -> list[NewMessage]:
    asked = NewMessage(content=f"Where does the green ferry number {number} sail?")
    return [asked, NewMessage(content="It sails to the western harbour.", role=MessageRole.ASSISTANT)]


def question(number: int) -> str:
    """A question that was not asked before, in words that were."""
    return f"Where does the {'green ' * number}ferry sail?"


VERBS: dict[str, Callable[[Memory, int], Awaitable[Any]]] = {
    "remember": lambda memory, number: memory.remember(f"The green ferry {number} is late.", scope="user"),
    "recall": lambda memory, number: memory.recall(question(number)),
    "recall without a session": lambda memory, number: memory.bound(replace(memory.identity, session_id=None)).recall(
        question(number)
    ),
    "messages": lambda memory, number: memory.add_messages(two(number)),
    "context": lambda memory, number: memory.get_context(question(number)),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_keeps_to_its_budget(memory: Memory, verb: str) -> None:
    caller = memory.acting_as(user="ana", session="chat")
    await caller.add_messages(two(0), scope="user")
    await caller.remember_fact("The green ferry is new.")  # which may repeat a message
    await work_off(memory, "embed")
    least_trips, least_statements = 1_000, 1_000
    for number in range(1, 9):  # the first calls read what later ones know; caches end by the clock
        with counted() as sent:
            await VERBS[verb](caller, number)
        told = sent.statements["db.outbox.notify"]  # workers are woken now and then, beside the calls
        least_trips = min(least_trips, sent.round_trips - told)
        least_statements = min(least_statements, sent.total - told)
    round_trips, statements = BUDGETS[verb]
    assert least_trips <= round_trips and least_statements <= statements, sent.statements
