"""`recordari remember`, `recall` and `read-tool-output`: the verbs, for a person."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from recordari.core.identity import AskedScope, Scope
from recordari.core.items import Kind
from recordari.kit.commands import (
    DEVELOPMENT_TENANT,
    Agent,
    Moment,
    Session,
    Tenant,
    User,
    ask,
    open_memory,
    read_moment,
)
from recordari.kit.output import AsJson, print_json, print_line, print_note, print_table, record, shortened
from recordari.memory import items
from recordari.memory import remember as remember_verbs
from recordari.memory.cli import settle
from recordari.memory.remember import Remembered
from recordari.recall import recall as recall_verbs
from recordari.recall.request import RecallAnswer, RecalledItem

EMBED_PATIENCE = 5.0  # a person waits for it; a model that is not there must not hold them up


def remember(
    text: Annotated[str, typer.Argument(help="The text; `-` reads it from standard input.")],
    *,
    kind: Annotated[
        Kind | None, typer.Option(help="What it is; left out, a message where --session is named, else a fact.")
    ] = None,
    scope: Annotated[Scope | None, typer.Option(help="Who may see it; the kind decides when left out.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    speaker: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    source_ref: Annotated[str | None, typer.Option(help="Your own key for it: the same key is the same item.")] = None,
    event_time: Moment = None,
    as_json: AsJson = False,
) -> None:
    """Remember something: a fact of --user or --agent, or with --session what was said there."""
    content = sys.stdin.read() if text == "-" else text
    chosen = kind or (Kind.FACT if session is None else Kind.CHAT_MESSAGE)
    happened = read_moment(event_time)

    async def run() -> Remembered:
        async with open_memory(tenant, user=user, agent=agent, session=session, worker=True) as caller:
            kept = await remember_verbs.remember(
                *caller, content, kind=chosen, scope=scope, speaker=speaker, source_ref=source_ref, event_time=happened
            )
            await settle(caller, patience=EMBED_PATIENCE)
            return kept

    kept = asyncio.run(run())
    if as_json:
        print_json(kept)
        return
    print_line(f"{kept.id}  {'new' if kept.was_new else 'was here already'}")
    if kept.payload_key is not None:
        print_note(f"kept as a preview; `recordari read-tool-output {kept.payload_key}` prints all of it")


def recall(
    query: Annotated[str, typer.Argument(help="The question, in your words.")],
    *,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Most items, up to 20.")] = 5,
    kind: Annotated[list[Kind] | None, typer.Option(help="Only this kind; repeatable.")] = None,
    scope: Annotated[AskedScope, typer.Option(help="Where to look.")] = AskedScope.ANY,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    since: Moment = None,
    until: Moment = None,
    as_of: Moment = None,
    no_rerank: Annotated[bool, typer.Option("--no-rerank", help="Leave the cross-encoder out.")] = False,
    include_superseded: Annotated[bool, typer.Option("--include-superseded", help="Retired facts too.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say why.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask memory; the best item comes first."""

    async def run() -> RecallAnswer:
        async with open_memory(tenant, user=user, agent=agent, session=session) as caller:
            return await recall_verbs.recall(
                *caller,
                query,
                top_k=top_k,
                source_kinds=kind,
                scope=scope,
                enable_rerank=not no_rerank,
                include_superseded=include_superseded,
                explain=explain,
                since=read_moment(since),
                until=read_moment(until),
                as_of=read_moment(as_of),
            )

    answer = asyncio.run(run())
    if as_json:
        print_json(record(answer, without=() if explain else ("trace",)))
        return
    reasons = _reasons(answer.trace) if answer.trace is not None else None
    somebody = user or agent or session
    empty = (
        "nothing is known about that" if somebody else "nothing is known that is everybody's; name --user or --agent"
    )
    print_table([_row(item, reasons) for item in answer.items], empty=empty)
    if answer.trace is not None:
        for line in _told(answer.trace):
            print_note(line)
    if answer.degraded:
        print_note("something is not embedded yet: found by keyword alone; `recordari worker` embeds it")


def read_tool_output(
    key: Annotated[str, typer.Argument(help="`payload_key` of an item.")],
    *,
    start: Annotated[int, typer.Option(help="First byte.")] = 0,
    length: Annotated[int | None, typer.Option(help="Most bytes.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Print the whole text behind a preview, without control characters."""
    found = ask(lambda caller: items.read_tool_output(*caller, key, start=start, length=length), tenant)
    if as_json:
        print_json(found)
        return
    for line in found.content.splitlines():
        print_line(line)
    if found.next_start is not None:
        print_note(f"{found.next_start} of {found.total_bytes} bytes; --start {found.next_start} goes on")


def _row(item: RecalledItem, reasons: Mapping[str, str] | None) -> dict[str, object]:
    text = shortened(item.content)
    row: dict[str, object] = {
        "id": item.id,
        "score": f"{item.score:.3f}",
        "kind": item.source_kind,
        "when": item.event_time,
        "text": f"{item.speaker}: {text}" if item.speaker else text,
    }
    if reasons is not None:
        row["why"] = reasons.get(str(item.id), "")
    return row


def _told(trace: Mapping[str, Any]) -> list[str]:
    """Where was looked, what was left out, and how long it took."""
    weights = ", ".join(f"{scope} × {weight}" for scope, weight in trace["scopes"].items())
    left_out = "".join(f"; not {scope}: {why}" for scope, why in trace["scopes_left_out"].items())
    found = ", ".join(
        f"{number} {'beside these' if arm == 'beside_a_hit' else f'by {arm}'}"
        for arm, number in trace["candidates"].items()
        if number
    )
    merged = len(trace["duplicates_merged"]) + len(trace["facts_folded"])
    lines = [
        f"scopes: {weights}{left_out}",
        f"candidates: {found or 'none'}; {merged} said the same as another",
        f"rerank: {trace['rerank']}",
        f"time: {trace['milliseconds']['total']} ms, searched in the {trace['searched_in']}",
    ]
    if trace["terms_too_common"]:
        lines.insert(1, f"words too common to search by: {', '.join(trace['terms_too_common'])}")
    return lines


def _reasons(trace: Mapping[str, Any]) -> dict[str, str]:
    """For each item by which arms it was found, at which place."""
    return {
        each["id"]: ", ".join(f"{arm} {rank}" for arm, rank in each["ranks"].items() if rank is not None)
        or "beside another"
        for each in trace["items"]
    }
