"""`recordari remember`, `recall`, `ask` and `read-tool-output`: the verbs, for a person."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from recordari.core.identity import AskedScope, Scope
from recordari.core.items import Kind
from recordari.kit.commands import (
    DEVELOPMENT_TENANT,
    Agent,
    Explain,
    Moment,
    NoRerank,
    Session,
    Tenant,
    TopK,
    User,
    ask,
    read_moment,
)
from recordari.kit.output import FILLS, Answer, Hint, Table, Text, record, shortened, stacked
from recordari.kit.verbs import Caller
from recordari.memory import items
from recordari.memory import remember as remember_verbs
from recordari.memory.cli import settle
from recordari.memory.remember import Remembered
from recordari.recall import ask as ask_verbs
from recordari.recall import recall as recall_verbs
from recordari.recall.request import RecalledItem
from recordari.recall.rules.confidence import UNLIKELY

SHOWN_PART = 0.005  # of a score; smaller parts are not drawn
EMBED_PATIENCE = 5.0  # seconds; a person waits, even if the model is missing


def remember(
    text: Annotated[str, typer.Argument(help="The text; `-` reads it from standard input.")],
    *,
    kind: Annotated[
        Kind | None, typer.Option(help="Its kind; if left out, a message with --session, else a fact.")
    ] = None,
    scope: Annotated[Scope | None, typer.Option(help="Who may see it; the kind decides, if left out.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    speaker: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    source_ref: Annotated[str | None, typer.Option(help="Your own key for it: the same key is the same item.")] = None,
    event_time: Moment = None,
    subject: Annotated[str | None, typer.Option(help="Whom or what a fact is about.")] = None,
    predicate: Annotated[str | None, typer.Option(help="What it says of that, such as `lives in`.")] = None,
    object_: Annotated[str | None, typer.Option("--object", help="The value, such as `Lisbon`.")] = None,
) -> Answer:
    """Remember something: a fact of --user or --agent, or with --session what was said there."""
    content = sys.stdin.read() if text == "-" else text
    chosen = kind or (Kind.FACT if session is None else Kind.CHAT_MESSAGE)
    moment = read_moment(event_time)

    async def run(caller: Caller) -> Remembered:
        saved = await remember_verbs.remember(
            *caller,
            content,
            kind=chosen,
            scope=scope,
            speaker=speaker,
            source_ref=source_ref,
            event_time=moment,
            subject=subject,
            predicate=predicate,
            object=object_,
        )
        await settle(caller, patience=EMBED_PATIENCE)
        return saved

    saved = ask(run, tenant, user=user, agent=agent, session=session, worker=True)
    preview = f"kept as a preview; `recordari read-tool-output {saved.payload_key}` prints all of it"
    return Answer(
        saved,
        f"{saved.id}  {'new' if saved.was_new else 'was here already'}",
        Hint(preview) if saved.payload_key is not None else None,
    )


def recall(
    query: Annotated[str, typer.Argument(help="The question, in your words.")],
    *,
    top_k: TopK = 5,
    kind: Annotated[list[Kind] | None, typer.Option(help="Only this kind; repeatable.")] = None,
    scope: Annotated[AskedScope, typer.Option(help="Where to look.")] = AskedScope.ANY,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    since: Moment = None,
    until: Moment = None,
    as_of: Moment = None,
    known_at: Moment = None,
    no_rerank: NoRerank = False,
    include_superseded: Annotated[bool, typer.Option("--include-superseded", help="Retired facts too.")] = False,
    min_confidence: Annotated[float, typer.Option(help="Below it the answer has no items, 0 to 1.")] = 0.0,
    explain: Explain = False,
) -> Answer:
    """Ask memory; the best item comes first."""
    answer = ask(
        lambda caller: recall_verbs.recall(
            *caller,
            query,
            top_k=top_k,
            source_kinds=kind,
            scope=scope,
            enable_rerank=not no_rerank,
            include_superseded=include_superseded,
            min_confidence=min_confidence,
            explain=explain,
            since=read_moment(since),
            until=read_moment(until),
            as_of=read_moment(as_of),
            known_at=read_moment(known_at),
        ),
        tenant,
        user=user,
        agent=agent,
        session=session,
    )
    is_bound = user or agent or session
    empty = (
        "nothing is known about that" if is_bound else "the tenant shares nothing about that; name --user or --agent"
    )
    reasons = _reasons(answer.trace) if answer.trace is not None else None
    late = "some items are not embedded yet and found by words alone; `recordari worker` embeds them"
    return Answer(
        record(answer, without=() if explain else ("trace",)),
        Table([_row(item, reasons) for item in answer.items], empty=empty),
        *(_bars(answer.trace, answer.items) if answer.trace is not None else ()),
        *(Hint(line) for line in (_trace_lines(answer.trace) if answer.trace is not None else ())),
        Hint(f"{answer.hint} (confidence {answer.confidence:.2f})") if answer.items and answer.hint else None,
        Hint(late) if answer.degraded else None,
    )


def ask_memory(
    question: Annotated[str, typer.Argument(help="The question, in your words.")],
    *,
    scope: Annotated[AskedScope, typer.Option(help="Where to look.")] = AskedScope.ANY,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    as_of: Moment = None,
    min_confidence: Annotated[float, typer.Option(help="Below it nothing is answered, 0 to 1.")] = UNLIKELY,
) -> Answer:
    """Answer a question from memory, with quotes and their sources."""
    found = ask(
        lambda caller: ask_verbs.ask(
            *caller, question, scope=scope, as_of=read_moment(as_of), min_confidence=min_confidence
        ),
        tenant,
        user=user,
        agent=agent,
        session=session,
    )
    return Answer(found, Text(found.answer or found.hint or ""), Hint(f"confidence {found.confidence:.2f}"))


def read_tool_output(
    key: Annotated[str, typer.Argument(help="`payload_key` of an item.")],
    *,
    start: Annotated[int, typer.Option(help="First byte.")] = 0,
    length: Annotated[int | None, typer.Option(help="Most bytes.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Print the whole text behind a preview, without control characters."""
    output = ask(lambda caller: items.read_tool_output(*caller, key, start=start, length=length), tenant)
    more = f"{output.next_start} of {output.total_bytes} bytes; --start {output.next_start} goes on"
    return Answer(output, Text(output.content), Hint(more) if output.next_start is not None else None)


def _row(item: RecalledItem, reasons: Mapping[str, str] | None) -> dict[str, object]:
    text = shortened(item.content if item.passage is None else item.passage.content)
    row: dict[str, object] = {
        "id": item.id,
        "score": f"{item.score:.3f}",
        "kind": item.source_kind,
        "trust": item.trust,
        "when": item.event_time,
        "text": f"{item.speaker}: {text}" if item.speaker else text,
    }
    if reasons is not None:
        row["why"] = reasons.get(str(item.id), "")
    return row


def _bars(trace: Mapping[str, Any], items: Sequence[RecalledItem]) -> list[str]:
    """The score of each item as a bar of its parts; a bar of full width has the largest sum of parts."""
    parts = {
        item["id"]: {name: value for name, value in item["parts"].items() if abs(value) >= SHOWN_PART}
        for item in trace["items"]
    }
    shown = [(item, parts.get(str(item.id), {})) for item in items]
    names = list(dict.fromkeys(name for _, found in shown for name in found))
    most = max((sum(max(0.0, value) for value in found.values()) for _, found in shown), default=0.0)
    lines = []
    for rank, (item, found) in enumerate(shown, start=1):
        bar = stacked([found.get(name, 0.0) for name in names], most)
        figures = ", ".join(
            f"{FILLS[names.index(name) % len(FILLS)]} {name} {value:.2f}" for name, value in found.items()
        )
        lines.append(f"{rank:>2}  {item.score:6.2f}  {bar}  {figures}")
    return lines


def _trace_lines(trace: Mapping[str, Any]) -> list[str]:
    weights = ", ".join(f"{scope} × {weight}" for scope, weight in trace["scopes"].items())
    left_out = "".join(f"; not {scope}: {why}" for scope, why in trace["scopes_left_out"].items())
    arms = ", ".join(
        f"{number} {'beside these' if arm == 'beside_a_hit' else f'by {arm}'}"
        for arm, number in trace["candidates"].items()
        if number
    )
    merged = len(trace["duplicates_merged"]) + len(trace["facts_folded"])
    lines = [
        f"scopes: {weights}{left_out}",
        f"candidates: {arms or 'none'}; {merged} said the same as another",
        f"rerank: {trace['rerank']}",
        f"time: {trace['milliseconds']['total']} ms, searched in the {trace['searched_in']}",
    ]
    if trace["terms_too_common"]:
        lines.insert(1, f"words too common to search by: {', '.join(trace['terms_too_common'])}")
    return lines


def _reasons(trace: Mapping[str, Any]) -> dict[str, str]:
    """The arms that found each item, with its ranks."""
    return {
        item["id"]: ", ".join(f"{arm} {rank}" for arm, rank in item["ranks"].items() if rank is not None)
        or "beside another"
        for item in trace["items"]
    }
