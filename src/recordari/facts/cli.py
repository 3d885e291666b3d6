"""`recordari facts`: list and preview facts, see versions as rows or a time line, correct, end, restore, pin, rate; rulings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer

from recordari.core.identity import Scope
from recordari.core.items import Item, Kind
from recordari.facts import curate, extract
from recordari.facts.curate import ItemState
from recordari.facts.rules.claims import Opinion
from recordari.kit.commands import (
    DEVELOPMENT_TENANT,
    Agent,
    ItemId,
    Limit,
    Moment,
    Reason,
    Tenant,
    User,
    ask,
    read_moment,
)
from recordari.kit.output import Answer, Commands, Hint, Table, shortened, span
from recordari.memory import versions

facts_commands = Commands()


@facts_commands.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    kind: Annotated[list[Kind] | None, typer.Option(help="Other kinds than facts; repeatable.")] = None,
    scope: Annotated[Scope | None, typer.Option(help="Only of this scope.")] = None,
    category: Annotated[str | None, typer.Option(help="Only of this category.")] = None,
    state: Annotated[ItemState, typer.Option(help="Only in this state.")] = ItemState.LIVE,
    pinned: Annotated[bool, typer.Option("--pinned", help="Only pinned ones.")] = False,
    as_of: Moment = None,
    known_at: Moment = None,
    before: Annotated[UUID | None, typer.Option(help="Continue after this id, the last of the page before.")] = None,
    limit: Limit = 50,
) -> Answer:
    """List facts, newest first."""
    moment, known = read_moment(as_of), read_moment(known_at)
    page = ask(
        lambda caller: curate.list_items(
            *caller,
            kinds=kind or [Kind.FACT],
            scope=scope,
            category=category,
            state=state,
            pinned=pinned,
            as_of=moment,
            known_at=known,
            before=before,
            limit=limit,
        ),
        tenant,
        user=user,
        agent=agent,
    )
    return Answer(
        page,
        Table([_row(item) for item in page.items], empty="there are no such facts"),
        Hint(f"there are more: --before {page.next_before}") if page.next_before is not None else None,
    )


@facts_commands.command("preview")
def preview_facts(
    text: Annotated[str, typer.Argument(help="The text to learn from.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    agent: Agent = None,
    speaker: Annotated[str | None, typer.Option(help="Who says it.")] = None,
    never: Annotated[list[str] | None, typer.Option(help="Try a topic that is never kept; repeatable.")] = None,
) -> Answer:
    """Show what would be learnt from a text. Nothing is kept."""
    found = ask(
        lambda caller: extract.preview_facts(
            *caller, text, speaker=speaker, agent_id=agent, learning={"never": never} if never else None
        ),
        tenant,
    )
    rows = [
        {"fact": fact.content, "category": fact.category, "kept": "no: " + fact.refused if fact.refused else "yes"}
        for fact in found
    ]
    return Answer(found, Table(rows, empty="nothing would be learnt from this text"))


@facts_commands.command()
def history(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Show every version of a fact, oldest first."""
    items = ask(lambda caller: versions.item_history(*caller, item_id), tenant)
    rows = [{**_row(item), "until": item.invalid_at, "superseded_by": item.superseded_by} for item in items]
    return Answer(items, Table(rows, empty="there are no versions"))


@facts_commands.command()
def timeline(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Draw when each version of a fact was true, and since when it is known."""
    items = ask(lambda caller: versions.item_history(*caller, item_id), tenant)
    now = datetime.now(UTC)
    start = min(min(item.valid_at, item.created_at) for item in items)
    end = max(now, *(item.invalid_at or now for item in items))
    lines = [f"{start:%Y-%m-%d} to {end:%Y-%m-%d}"]
    for number, item in enumerate(items, start=1):
        until = item.invalid_at or end
        ends = f"until {item.invalid_at:%Y-%m-%d}" if item.invalid_at is not None else "holds"
        lines.append(f"{number:>2}  {shortened(item.content)}")
        lines.append(
            f"    true   {span(item.valid_at, until, start=start, end=end)}  since {item.valid_at:%Y-%m-%d}, {ends}"
        )
        known = span(item.created_at, item.retired_at or end, start=start, end=end)
        lines.append(f"    known  {known}  since {item.created_at:%Y-%m-%d}")
    return Answer(items, *lines)


@facts_commands.command()
def edit(
    item_id: ItemId,
    content: Annotated[str, typer.Argument(help="The new text.")],
    *,
    reason: Reason = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Give a fact another text, as a new version that supersedes the old one."""
    edited = ask(lambda caller: curate.edit_item(*caller, item_id, content, reason=reason), tenant)
    return Answer(edited, f"{edited.id}  supersedes {item_id}")


@facts_commands.command()
def invalidate(item_id: ItemId, *, reason: Reason = None, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Mark a fact as no longer true; it leaves recall and can be restored."""
    ask(lambda caller: curate.invalidate_item(*caller, item_id, reason=reason), tenant)
    return _done(item_id, "invalidated")


@facts_commands.command()
def restore(item_id: ItemId, *, reason: Reason = None, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Make an invalidated or superseded fact current again, unless a newer one contradicts it."""
    ask(lambda caller: curate.restore_item(*caller, item_id, reason=reason), tenant)
    return _done(item_id, "restored")


@facts_commands.command("rulings")
def list_rulings(
    *,
    before: Annotated[UUID | None, typer.Option(help="Continue after this id, the last of the page before.")] = None,
    limit: Limit = curate.RULINGS,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """List the last rulings that ended a fact, newest first, with both texts and the rule."""
    found = ask(lambda caller: curate.list_rulings(*caller, before=before, limit=limit), tenant)
    rows = [
        {
            "ruling": ruling.ruling_id,
            "at": ruling.at,
            "rule": f"{ruling.rule}, undone" if ruling.is_undone else ruling.rule,
            "ended": ruling.content or ruling.item_id,
            "by": ruling.successor or ruling.superseded_by,
        }
        for ruling in found
    ]
    return Answer(found, Table(rows, empty="no fact was ended"))


@facts_commands.command()
def undo(
    ruling_id: Annotated[UUID, typer.Argument(help="The id of the ruling.")],
    *,
    reason: Reason = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Undo a ruling: the fact that it ended is exactly as before."""
    ask(lambda caller: curate.undo_ruling(*caller, ruling_id, reason=reason), tenant)
    return _done(ruling_id, "undone")


@facts_commands.command()
def pin(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Keep a fact until a person ends it: neither the judge nor decay may."""
    ask(lambda caller: curate.pin_item(*caller, item_id), tenant)
    return _done(item_id, "pinned")


@facts_commands.command()
def unpin(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Let the judge and decay end a fact again."""
    ask(lambda caller: curate.pin_item(*caller, item_id, pinned=False), tenant)
    return _done(item_id, "unpinned")


@facts_commands.command()
def feedback(
    item_id: ItemId,
    opinion: Annotated[Opinion, typer.Argument(help="Your opinion of it.")],
    *,
    reason: Reason = None,
    user: User = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Rate a fact as useful or wrong."""
    confidence = ask(lambda caller: curate.give_feedback(*caller, item_id, opinion, reason=reason), tenant, user=user)
    return Answer({"item_id": item_id, "confidence": confidence}, f"confidence {confidence:.2f}")


@facts_commands.command()
def provenance(item_id: ItemId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Show the sources, the trend and the feedback of a fact."""
    shown = ask(lambda caller: curate.item_provenance(*caller, item_id), tenant)
    summary = f"{shown.trend}; {shown.useful} found it useful, {shown.wrong} wrong"
    return Answer(shown, summary, Table(shown.sources, empty="its sources are not known"))


def _row(item: Item) -> dict[str, object]:
    return {
        "id": item.item_id,
        "kind": item.kind,
        "whose": item.user_id or item.agent_id or item.session_id or item.scope,
        "since": item.valid_at,
        "text": item.content,
    }


def _done(item_id: UUID, change: str) -> Answer:
    return Answer({"item_id": item_id, "done": change}, f"{item_id}  {change}")
