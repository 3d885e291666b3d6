"""`recordari policy`: how long memory is kept, what may never be removed or copied, and what is masked."""

from __future__ import annotations

import json
from typing import Annotated, Any
from uuid import UUID

import typer

from recordari.domain.retention import RetentionPolicy
from recordari.kit.commands import Tenant, ask
from recordari.kit.output import AsJson, Yes, confirm, print_json, print_line, print_record, print_table, record
from recordari.service.maintenance import DEVELOPMENT_TENANT
from recordari.service.retain import Sweep

app = typer.Typer()

ItemId = Annotated[UUID, typer.Argument(help="Id of the item.")]
ActionId = Annotated[str, typer.Argument(help="Your own id of the action.")]
SourceId = Annotated[UUID, typer.Argument(help="Id of the source.")]


@app.command()
def show(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show how long the tenant keeps what it has ended."""
    _show(ask(lambda memory: memory.get_retention_policy(), tenant), as_json=as_json)


@app.command("set")
def change(
    values: Annotated[list[str], typer.Argument(help="NAME=VALUE, such as deleted_days=7; repeatable.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Change values of the retention policy."""
    changes = dict(_read(text) for text in values)
    _show(ask(lambda memory: memory.set_retention_policy(**changes), tenant), as_json=as_json)


@app.command("dry-run")
def dry_run(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Say what a sweep by the policy would do now."""
    _show_sweep(ask(lambda memory: memory.sweep(dry_run=True), tenant), as_json=as_json)


@app.command()
def sweep(
    *,
    force: Annotated[bool, typer.Option("--force", help="Pass over the safety floor.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Carry the retention policy out now instead of at its time."""
    confirm("Redact and remove what the policy says? `recordari policy dry-run` shows it first.", yes=yes)
    _show_sweep(ask(lambda memory: memory.sweep(dry_run=False, force=force), tenant), as_json=as_json)


@app.command()
def fade(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Archive recent memory that has faded and promote what matters, now instead of at its time."""
    done = ask(lambda memory: memory.fade(), tenant)
    (print_json if as_json else print_record)(record(done))


@app.command()
def hold(item_id: ItemId, action_id: ActionId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Note that an action rests on an item: nothing may remove it from then on."""
    made = ask(lambda memory: memory.hold(item_id, action_id), tenant)
    if as_json:
        print_json({"item_id": item_id, "action_id": action_id, "was_new": made})
    else:
        print_line("held" if made else "was held already")


@app.command()
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
    ask(lambda memory: memory.release(item_id, action_id), tenant)
    if as_json:
        print_json({"item_id": item_id, "action_id": action_id, "done": "released"})
    else:
        print_line("released")


@app.command()
def holds(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List the actions that rest on an item."""
    found = [record(each) for each in ask(lambda memory: memory.list_holds(item_id), tenant)]
    if as_json:
        print_json(found)
    else:
        print_table(found, empty="no action rests on it")


@app.command()
def protect(source_id: SourceId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Let no fact copy the documents of a source."""
    texts = ask(lambda memory: memory.protect_source(source_id), tenant)
    if as_json:
        print_json({"source_id": source_id, "texts": texts})
    else:
        print_line(f"{texts} texts came under guard")


@app.command()
def unprotect(
    source_id: SourceId, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Let facts say what they like of a source."""
    confirm(f"Protect the source {source_id} no longer?", yes=yes)
    ask(lambda memory: memory.unprotect_source(source_id), tenant)
    if as_json:
        print_json({"source_id": source_id, "done": "unprotected"})
    else:
        print_line("unprotected")


@app.command()
def protected(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List the sources that no fact may copy."""
    found = [record(each) for each in ask(lambda memory: memory.list_protected_sources(), tenant)]
    if as_json:
        print_json(found)
    else:
        print_table(found, empty="no source is protected")


@app.command()
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
    policy = ask(lambda memory: memory.set_privacy_policy(setting) if setting else memory.get_privacy_policy(), tenant)
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
