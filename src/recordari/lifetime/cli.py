"""`recordari forget`, `erase`, `erase-agent` and `policy`: end memory, or hold it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

import typer

from recordari.kit.commands import DEVELOPMENT_TENANT, ItemId, Reason, Tenant, Yes, ask, read_values
from recordari.kit.output import Answer, Commands, Hint, Record, Table, confirm, counted, record
from recordari.kit.verbs import Caller
from recordari.lifetime import erase as erase_verbs
from recordari.lifetime import forget as forget_verbs
from recordari.lifetime import retain
from recordari.lifetime.forget import Forgotten
from recordari.lifetime.retain import Sweep
from recordari.memory.cli import progress_bar
from recordari.privacy import sanitise

LOOK_SECONDS = 0.2


def forget(
    item_id: ItemId,
    *,
    reason: Reason = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; list the items that would go.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
) -> Answer:
    """Redact an item with everything derived from it; you cannot undo this."""

    def run(*, dry_run: bool) -> Forgotten:
        return ask(lambda caller: forget_verbs.forget(*caller, item_id, reason=reason, dry_run=dry_run), tenant)

    if not dry_run:
        derived = "everything"
        if not yes and sys.stdin.isatty():
            derived = counted(len(run(dry_run=True).item_ids) - 1, "item")
        confirm(f"Forget this item and {derived} derived from it? You cannot undo this.", yes=yes)
    result = run(dry_run=dry_run)
    note = f"{counted(len(result.item_ids), 'item')} {'to be forgotten' if dry_run else 'forgotten'}"
    return Answer(result, *map(str, result.item_ids), Hint(note))


def erase_agent(
    agent_id: Annotated[str, typer.Argument(help="Id of the agent.")],
    *,
    memories: Annotated[bool, typer.Option("--memories", help="Erase what it remembered, too.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
) -> Answer:
    """Remove the definition of an agent; with --memories, erase what it remembered too. What users said to it stays."""
    what = "and everything that it remembered" if memories else "; its memories stay"
    confirm(f"Remove the agent {agent_id}{' ' if memories else ''}{what}? You cannot undo this.", yes=yes)
    deleted = ask(lambda caller: erase_verbs.delete_agent(*caller, agent_id, memories=memories), tenant)
    gone = f", with {counted(deleted.items, 'memory', 'memories')} and {counted(deleted.sessions, 'session')}"
    return Answer(deleted, f"removed{gone if memories else ''}")


def erase(
    user_id: Annotated[str, typer.Argument(help="Id of the user.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
) -> Answer:
    """Erase a user everywhere: memories, sessions, keys, open work. If you stop it, a worker completes it."""
    confirm(f"Erase everything of the user {user_id}? You cannot undo this.", yes=yes)

    async def run(caller: Caller) -> dict[str, Any]:
        started = await erase_verbs.start_erasing_user(*caller, user_id)
        erasing = asyncio.create_task(erase_verbs.erase_user(*caller, user_id))
        with progress_bar("items erased") as progress:
            while not erasing.done():
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(erasing), LOOK_SECONDS)
                progress((await erase_verbs.get_erasure(*caller, started.erasure_id)).items, 0)
        return record(await erasing, without=("user_id", "user_hash"))

    erasure = ask(run, tenant)
    return Answer(erasure, f"{counted(erasure['items'], 'item')} and {counted(erasure['sessions'], 'session')} erased")


policy_commands = Commands()

ActionId = Annotated[str, typer.Argument(help="Your own id of the action.")]
SourceId = Annotated[UUID, typer.Argument(help="Id of the source.")]


@policy_commands.command()
def show(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Show the retention policy: how long the tenant keeps items that have ended."""
    return Record(ask(lambda caller: retain.get_retention_policy(*caller), tenant))


@policy_commands.command("set")
def change(
    values: Annotated[list[str], typer.Argument(help="NAME=VALUE, such as deleted_days=7; repeatable.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Record:
    """Change values of the retention policy."""
    changes = read_values(values)
    return Record(ask(lambda caller: retain.set_retention_policy(*caller, **changes), tenant))


@policy_commands.command("dry-run")
def dry_run(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Show what a sweep by the retention policy would do now."""
    return _swept(ask(lambda caller: retain.sweep(*caller, dry_run=True), tenant))


@policy_commands.command()
def sweep(
    *,
    force: Annotated[bool, typer.Option("--force", help="Pass over the safety floor.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
) -> Answer:
    """Apply the retention policy now, without waiting for the daily job."""
    confirm("Apply the policy? `recordari policy dry-run` shows the items first.", yes=yes)
    return _swept(ask(lambda caller: retain.sweep(*caller, dry_run=False, force=force), tenant))


def _swept(sweep: Sweep) -> Answer:
    rows = [{"verdict": verdict, "items": count} for verdict, count in sweep.counts.items()]
    return Answer(sweep, Table(rows, empty="nothing to do"))


@policy_commands.command()
def decay(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Archive faded items and promote important ones now, without waiting for the daily job."""
    return Record(ask(lambda caller: retain.decay(*caller), tenant))


@policy_commands.command()
def hold(item_id: ItemId, action_id: ActionId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Hold an item for an action: nothing may remove it until you release it."""
    was_new = ask(lambda caller: forget_verbs.hold(*caller, item_id, action_id), tenant)
    answer = {"item_id": item_id, "action_id": action_id, "was_new": was_new}
    return Answer(answer, "held" if was_new else "was held already")


@policy_commands.command()
def release(item_id: ItemId, action_id: ActionId, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False) -> Answer:
    """Release an item that was held for an action."""
    confirm(f"Release {item_id}? The action {action_id} no longer keeps it.", yes=yes)
    ask(lambda caller: forget_verbs.release(*caller, item_id, action_id), tenant)
    return Answer({"item_id": item_id, "action_id": action_id, "done": "released"}, "released")


@policy_commands.command()
def holds(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the actions that hold an item."""
    return Table(ask(lambda caller: forget_verbs.list_holds(*caller, item_id), tenant), empty="no action rests on it")


@policy_commands.command("forecast")
def show_forecast(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Show how often an item was used, and how it fades."""
    found = ask(lambda caller: retain.item_forecast(*caller, item_id), tenant)
    shown = record(found, without=("retention",))
    left = {f"in {day} days": f"{found.retention[day]:.0%}" for day in (7, 14, 30)} if found.retention else {}
    return Answer(found, Record({**shown, **left}))


@policy_commands.command()
def protect(source_id: SourceId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Let no fact copy the documents of a source."""
    texts = ask(lambda caller: sanitise.protect_source(*caller, source_id), tenant)
    return Answer({"source_id": source_id, "texts": texts}, f"{counted(texts, 'text')} protected")


@policy_commands.command()
def unprotect(source_id: SourceId, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False) -> Answer:
    """Let facts copy the documents of a source again."""
    confirm(f"Protect the source {source_id} no longer?", yes=yes)
    ask(lambda caller: sanitise.unprotect_source(*caller, source_id), tenant)
    return Answer({"source_id": source_id, "done": "unprotected"}, "unprotected")


@policy_commands.command()
def protected(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the sources that no fact may copy."""
    return Table(ask(lambda caller: sanitise.list_protected_sources(*caller), tenant), empty="no source is protected")


@policy_commands.command()
def privacy(
    values: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE, such as default=mask email=keep; none: only show.")
    ] = None,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Record:
    """Show or replace the policy for personal data and secrets in new items."""
    actions = read_values(values)
    if actions:
        policy = ask(lambda caller: sanitise.set_privacy_policy(*caller, actions), tenant)
    else:
        policy = ask(lambda caller: sanitise.get_privacy_policy(*caller), tenant)
    return Record({"enabled": policy.enabled, **{str(name): str(action) for name, action in policy.actions.items()}})
