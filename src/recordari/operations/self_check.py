"""The self-check after an upgrade: remembers, recalls, walls off and erases, as a user that it makes up and erases again."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable

from recordari.context.assemble import get_context
from recordari.core.identity import Identity
from recordari.errors import RecordariError
from recordari.kit.resources import Resources
from recordari.lifetime import erase
from recordari.memory.remember import remember_fact
from recordari.operations.doctor import Check, fail, failure, ok
from recordari.recall.recall import recall

WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.1

Step = Callable[[], Awaitable[Check]]


async def self_check(resources: Resources, identity: Identity, *, wait: float = WAIT_SECONDS) -> list[Check]:
    """Use the memory of a tenant as a new user, and erase that user; a step that fails ends the check early."""
    user_id = f"self-check-{secrets.token_hex(8)}"
    word = "".join(secrets.choice("bdfgklmnprst") + secrets.choice("aeiou") for _ in range(6))  # no other memory has it
    user = identity.narrowed(user_id=user_id)
    other = identity.narrowed(user_id=f"{user_id}-other")
    question = f"What is the word of the self-check {word}?"

    async def finds(who: Identity) -> bool:
        return any(word in item.content for item in (await recall(resources, who, question)).items)

    async def write() -> Check:
        item = await remember_fact(resources, user, f"The word of the self-check is {word}")
        return ok("write", f"item {item.id}")

    async def work() -> Check:
        if await _embedded(resources, user, question, wait):
            return ok("background work", "the item was embedded")
        found = f"the item was not embedded within {wait:.0f} s"
        return fail("background work", found, "start a worker, and run `recordari jobs dead` and `recordari doctor`")

    async def search() -> Check:
        if await finds(user):
            return ok("recall", "the item was found")
        return fail("recall", "the item was not found", "run `recordari reindex`")

    async def assemble() -> Check:
        context = await get_context(resources, user, question)
        if word in (context.text or ""):
            return ok("context", f"{context.tokens} tokens, with the item")
        return fail("context", "the item is not in it", "run `recordari context` with --explain")

    async def wall() -> Check:
        if await finds(other):
            return fail("isolation", "another user sees the item", "stop the server, and restore the version before")
        return ok("isolation", "another user does not see the item")

    async def clean() -> Check:
        erasure = await erase.erase_user(resources, identity, user_id)
        if erasure.items and not await finds(user):
            return ok("erasure", "the item and its user are gone")
        return fail("erasure", "the item is still there", f"run `recordari erase {user_id}`")

    checks = await _until_failed([write, work, search, assemble, wall])
    return [*checks, *await _until_failed([clean])]


async def _until_failed(steps: list[Step]) -> list[Check]:
    checks: list[Check] = []
    for step in steps:
        try:
            checks.append(await step())
        except RecordariError as error:
            checks.append(failure(step.__name__, error))
        if checks[-1].state == "fail":
            break
    return checks


async def _embedded(resources: Resources, user: Identity, question: str, wait: float) -> bool:
    """Wait until recall is not degraded; True at once where nothing embeds."""
    if resources.settings.embedding_provider == "none":
        return True
    try:
        async with asyncio.timeout(wait):
            while (await recall(resources, user, question)).degraded:  # noqa: ASYNC110 - the worker may be elsewhere
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return False
    return True
