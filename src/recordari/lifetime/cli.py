"""`recordari forget`, `erase` and `export`: what a person may ask of a memory about them."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

import typer

from recordari.core.checks import Progress
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask, open_memory
from recordari.kit.output import (
    AsJson,
    Yes,
    confirm,
    counted,
    print_json,
    print_line,
    print_note,
    print_record,
    print_table,
    record,
)
from recordari.kit.verbs import Caller
from recordari.lifetime import decay as decay_verbs
from recordari.lifetime import erase as erase_verbs
from recordari.lifetime import forget as forget_verbs
from recordari.lifetime import retain
from recordari.lifetime.forget import Forgotten
from recordari.lifetime.retain import Sweep
from recordari.lifetime.rules import RetentionPolicy
from recordari.memory.cli import progress_bar
from recordari.privacy import sanitise

LOOK_SECONDS = 0.2


def forget(
    item_id: Annotated[UUID, typer.Argument(help="Id of the item: `recordari facts list`, `recall --json`.")],
    *,
    reason: Annotated[str | None, typer.Option(help="Why; it stands in the audit.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Redact an item with everything derived from it; it does not come back."""

    async def run(*, only_look: bool) -> Forgotten:
        async with open_memory(tenant) as caller:
            return await forget_verbs.forget(*caller, item_id, reason=reason, dry_run=only_look)

    if not dry_run:
        if not yes and sys.stdin.isatty():
            reached = len(asyncio.run(run(only_look=True)).item_ids)
            question = f"Forget this item and {reached - 1} derived from it? Nothing brings them back."
        else:
            question = "Forget this item and everything derived from it? Nothing brings them back."
        confirm(question, yes=yes)
    done = asyncio.run(run(only_look=dry_run))
    if as_json:
        print_json(done)
        return
    for each in done.item_ids:
        print_line(each)
    print_note(f"{counted(len(done.item_ids), 'item')} {'to be forgotten' if dry_run else 'forgotten'}")


def erase(
    user_id: Annotated[str, typer.Argument(help="Id of the user.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase a user everywhere: memories, sessions, keys, work that waits. Stopped, it is ended by a worker."""
    confirm(f"Erase everything of the user {user_id}? Nothing brings it back.", yes=yes)

    async def run() -> dict[str, Any]:
        async with open_memory(tenant) as caller:
            with progress_bar("items erased", hidden=as_json) as progress:
                return await _erased(caller, user_id, progress)

    done = asyncio.run(run())
    if as_json:
        print_json(done)
    else:
        print_line(f"{counted(done['items'], 'item')} and {counted(done['sessions'], 'session')} erased")


async def _erased(caller: Caller, user_id: str, progress: Progress) -> dict[str, Any]:
    started = await erase_verbs.start_erasing_user(*caller, user_id)
    erasing = asyncio.create_task(erase_verbs.erase_user(*caller, user_id))
    while not erasing.done():
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(erasing), LOOK_SECONDS)
        progress((await erase_verbs.get_erasure(*caller, started.erasure_id)).items, 0)
    return record(await erasing, without=("user_id", "user_hash"))


policy_commands = typer.Typer()

ItemId = Annotated[UUID, typer.Argument(help="Id of the item.")]
ActionId = Annotated[str, typer.Argument(help="Your own id of the action.")]
SourceId = Annotated[UUID, typer.Argument(help="Id of the source.")]


@policy_commands.command()
def show(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show how long the tenant keeps what it has ended."""
    _show(ask(lambda caller: retain.get_retention_policy(*caller), tenant), as_json=as_json)


@policy_commands.command("set")
def change(
    values: Annotated[list[str], typer.Argument(help="NAME=VALUE, such as deleted_days=7; repeatable.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Change values of the retention policy."""
    changes = dict(_read(text) for text in values)
    _show(ask(lambda caller: retain.set_retention_policy(*caller, **changes), tenant), as_json=as_json)


@policy_commands.command("dry-run")
def dry_run(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Say what a sweep by the policy would do now."""
    _show_sweep(ask(lambda caller: retain.sweep(*caller, dry_run=True), tenant), as_json=as_json)


@policy_commands.command()
def sweep(
    *,
    force: Annotated[bool, typer.Option("--force", help="Pass over the safety floor.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Carry the retention policy out now instead of at its time."""
    confirm("Redact and remove what the policy says? `recordari policy dry-run` shows it first.", yes=yes)
    _show_sweep(ask(lambda caller: retain.sweep(*caller, dry_run=False, force=force), tenant), as_json=as_json)


@policy_commands.command()
def decay(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Archive recent memory that has faded and promote what matters, now instead of at its time."""
    done = ask(lambda caller: decay_verbs.decay(*caller), tenant)
    (print_json if as_json else print_record)(record(done))


@policy_commands.command()
def hold(item_id: ItemId, action_id: ActionId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Note that an action rests on an item: nothing may remove it from then on."""
    made = ask(lambda caller: forget_verbs.hold(*caller, item_id, action_id), tenant)
    if as_json:
        print_json({"item_id": item_id, "action_id": action_id, "was_new": made})
    else:
        print_line("held" if made else "was held already")


@policy_commands.command()
def release(
    item_id: ItemId,
    action_id: ActionId,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Note that an action rests on an item no longer."""
    confirm(f"Release {item_id}? What rests on it no longer keeps it.", yes=yes)
    ask(lambda caller: forget_verbs.release(*caller, item_id, action_id), tenant)
    if as_json:
        print_json({"item_id": item_id, "action_id": action_id, "done": "released"})
    else:
        print_line("released")


@policy_commands.command()
def holds(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List the actions that rest on an item."""
    found = [record(each) for each in ask(lambda caller: forget_verbs.list_holds(*caller, item_id), tenant)]
    if as_json:
        print_json(found)
    else:
        print_table(found, empty="no action rests on it")


@policy_commands.command()
def protect(source_id: SourceId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Let no fact copy the documents of a source."""
    texts = ask(lambda caller: sanitise.protect_source(*caller, source_id), tenant)
    if as_json:
        print_json({"source_id": source_id, "texts": texts})
    else:
        print_line(f"{texts} texts came under guard")


@policy_commands.command()
def unprotect(
    source_id: SourceId, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Let facts say what they like of a source."""
    confirm(f"Protect the source {source_id} no longer?", yes=yes)
    ask(lambda caller: sanitise.unprotect_source(*caller, source_id), tenant)
    if as_json:
        print_json({"source_id": source_id, "done": "unprotected"})
    else:
        print_line("unprotected")


@policy_commands.command()
def protected(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List the sources that no fact may copy."""
    found = [record(each) for each in ask(lambda caller: sanitise.list_protected_sources(*caller), tenant)]
    if as_json:
        print_json(found)
    else:
        print_table(found, empty="no source is protected")


@policy_commands.command()
def privacy(
    values: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE, such as default=mask email=keep; none: only show.")
    ] = None,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Show or replace what is done with personal data and secrets before anything is written."""
    setting = dict(_read(text) for text in values or [])
    policy = ask(
        lambda caller: (
            sanitise.set_privacy_policy(*caller, setting) if setting else sanitise.get_privacy_policy(*caller)
        ),
        tenant,
    )
    shown = {"enabled": policy.enabled, **{str(name): str(action) for name, action in policy.actions.items()}}
    (print_json if as_json else print_record)(shown)


def _read(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _show(policy: RetentionPolicy, *, as_json: bool) -> None:
    (print_json if as_json else print_record)(record(policy))


def _show_sweep(sweep: Sweep, *, as_json: bool) -> None:
    if as_json:
        print_json(record(sweep))
        return
    print_table(
        [{"verdict": verdict, "items": count} for verdict, count in sweep.counts.items()], empty="nothing to do"
    )
