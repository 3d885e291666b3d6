"""`recordari facts`: list, history, edit, invalidate, restore, pin, unpin, feedback."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from recordari.core.identity import Scope
from recordari.core.items import Item, Kind
from recordari.facts import curate
from recordari.facts.curate import ItemPage, ItemState
from recordari.facts.rules.claims import Opinion
from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Tenant, User, ask
from recordari.kit.output import AsJson, print_json, print_line, print_note, print_table, record
from recordari.kit.verbs import Caller
from recordari.memory import versions as versions_verbs

facts_commands = typer.Typer()

ItemId = Annotated[UUID, typer.Argument(help="Id of the fact, from `recordari facts list`.")]
Reason = Annotated[str | None, typer.Option(help="Why; it stands in the audit.")]


@facts_commands.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    kind: Annotated[list[Kind] | None, typer.Option(help="Other kinds than facts; repeatable.")] = None,
    scope: Annotated[Scope | None, typer.Option(help="Only of this scope.")] = None,
    category: Annotated[str | None, typer.Option(help="Only of this category.")] = None,
    state: Annotated[ItemState, typer.Option(help="Which ones.")] = ItemState.LIVE,
    pinned: Annotated[bool, typer.Option("--pinned", help="Only pinned ones.")] = False,
    before: Annotated[UUID | None, typer.Option(help="Go on after this id, the last of the page before.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most lines.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List facts, newest first."""

    async def run(caller: Caller) -> ItemPage:
        return await curate.list_items(
            *caller,
            kinds=kind or [Kind.FACT],
            scope=scope,
            category=category,
            state=state,
            pinned=pinned,
            before=before,
            limit=limit,
        )

    page = ask(run, tenant, user=user, agent=agent)
    if as_json:
        print_json({"items": page.items, "next_before": page.next_before})
        return
    print_table([_row(item) for item in page.items], empty="there are no such facts")
    if page.next_before is not None:
        print_note(f"there are more: --before {page.next_before}")


@facts_commands.command()
def history(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show every version that a fact stands in line with, oldest first."""

    async def run(caller: Caller) -> list[Item]:
        return await versions_verbs.item_history(*caller, item_id)

    versions = ask(run, tenant)
    if as_json:
        print_json(versions)
    else:
        rows = [{**_row(item), "until": item.invalid_at, "superseded_by": item.superseded_by} for item in versions]
        print_table(rows, empty="there are no versions")


@facts_commands.command()
def edit(
    item_id: ItemId,
    content: Annotated[str, typer.Argument(help="The text it should have.")],
    *,
    reason: Reason = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Give a fact another text, as a new version that supersedes the old one."""
    made = ask(lambda caller: curate.edit_item(*caller, item_id, content, reason=reason), tenant)
    if as_json:
        print_json(made)
    else:
        print_line(f"{made.id}  supersedes {item_id}")


@facts_commands.command()
def invalidate(
    item_id: ItemId, *, reason: Reason = None, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False
) -> None:
    """Say that a fact is no longer true; it leaves recall and can be restored."""
    ask(lambda caller: curate.invalidate_item(*caller, item_id, reason=reason), tenant)
    _show(item_id, "invalidated", as_json=as_json)


@facts_commands.command()
def restore(
    item_id: ItemId, *, reason: Reason = None, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False
) -> None:
    """Undo that a fact was invalidated or superseded, unless something newer contradicts it."""
    ask(lambda caller: curate.restore_item(*caller, item_id, reason=reason), tenant)
    _show(item_id, "restored", as_json=as_json)


@facts_commands.command()
def pin(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Keep a fact until a person ends it: neither the judge nor decay may."""
    ask(lambda caller: curate.pin_item(*caller, item_id), tenant)
    _show(item_id, "pinned", as_json=as_json)


@facts_commands.command()
def unpin(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Let a fact go the way of the others again."""
    ask(lambda caller: curate.pin_item(*caller, item_id, pinned=False), tenant)
    _show(item_id, "unpinned", as_json=as_json)


@facts_commands.command()
def feedback(
    item_id: ItemId,
    opinion: Annotated[Opinion, typer.Argument(help="What you think of it.")],
    *,
    reason: Reason = None,
    user: User = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Say that a fact was useful or wrong."""
    confidence = ask(lambda caller: curate.give_feedback(*caller, item_id, opinion, reason=reason), tenant, user=user)
    if as_json:
        print_json({"item_id": item_id, "confidence": confidence})
    else:
        print_line(f"confidence {confidence:.2f}")


@facts_commands.command()
def provenance(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show what a fact rests on, how it fares, and what people think of it."""
    found = ask(lambda caller: curate.item_provenance(*caller, item_id), tenant)
    if as_json:
        print_json(found)
        return
    print_line(f"{found.trend}; {found.useful} found it useful, {found.wrong} wrong")
    print_table([record(source) for source in found.sources], empty="nobody said where it comes from")


def _row(item: Item) -> dict[str, object]:
    return {
        "id": item.item_id,
        "kind": item.kind,
        "whose": item.user_id or item.agent_id or item.session_id or item.scope,
        "since": item.valid_at,
        "text": item.content,
    }


def _show(item_id: UUID, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"item_id": item_id, "done": what})
    else:
        print_line(f"{item_id}  {what}")
