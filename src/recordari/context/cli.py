"""`recordari context`: what an agent would see for a question."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import typer

from recordari.context import assemble, profiles
from recordari.context.assemble import Context
from recordari.context.rules.context import Iteration, Rendering
from recordari.kit.commands import (
    DEVELOPMENT_TENANT,
    Agent,
    Session,
    Tenant,
    User,
    ask,
    open_memory,
)
from recordari.kit.output import AsJson, print_json, print_line, print_note, print_table


def context(
    question: Annotated[
        str | None, typer.Argument(help="What the user asks; without one, nothing is recalled.")
    ] = None,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    run: Annotated[str | None, typer.Option(help="The run, for what was handed to it.")] = None,
    profile: Annotated[str | None, typer.Option(help="router, stable, or one of the tenant's own.")] = None,
    budget: Annotated[int | None, typer.Option(help="Most tokens.")] = None,
    render: Annotated[Rendering, typer.Option(help="How to hand it over.")] = Rendering.TEXT,
    as_of: Annotated[str | None, typer.Option(help="A time in ISO 8601 with its offset.")] = None,
    iterate: Annotated[Iteration, typer.Option(help="Ask in several rounds.")] = Iteration.AUTO,
    explain: Annotated[bool, typer.Option("--explain", help="Say why.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what an agent would see for a question, within its budget of tokens."""
    try:
        moment = datetime.fromisoformat(as_of) if as_of is not None else None
    except ValueError:
        raise typer.BadParameter(f"{as_of!r} is not a time in ISO 8601.") from None

    async def run_it() -> Context:
        async with open_memory(tenant, user=user, agent=agent, session=session) as caller:
            return await assemble.get_context(
                *caller.bound(caller.identity.narrowed(run_id=run)),
                question,
                profile=profile,
                budget=budget,
                render=render,
                as_of=moment,
                iterate=iterate,
                explain=explain,
            )

    found = asyncio.run(run_it())
    if as_json:
        print_json(found)
        return
    _print(found)
    print_note(f"{found.tokens} of {found.budget} tokens; {found.left} left for the results of tools")
    if found.trace is not None:
        print_note("left out: " + "; ".join(f"{name}: {reason}" for name, reason in found.trace["left_out"].items()))


def _print(found: Context) -> None:
    if found.messages is not None:
        for message in found.messages:
            print_line(f"{message.role}:")
            _print_lines(message.content)
    elif found.text is not None:
        _print_lines(found.text)
    else:
        rows = [
            {"section": section.name, "ref": one.ref, "tokens": one.tokens, "trust": one.trust, "text": one.content}
            for section in found.sections
            for one in section.items
        ]
        print_table(rows, empty="nothing to show")


def _print_lines(text: str) -> None:
    for line in text.splitlines():
        print_line(line)


def profile(
    *,
    user: User = None,
    agent: Agent = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Print what is known of a user or an agent, in a few hundred tokens."""
    found = ask(lambda caller: profiles.profile(*caller, user=user, agent=agent), tenant)
    if as_json:
        print_json(found)
        return
    for line in found.content.splitlines() or ["nothing is known yet"]:
        print_line(line)
