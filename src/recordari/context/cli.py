"""`recordari context` and `profile`: what an agent would see for a question, and what is known of a user or agent."""

from __future__ import annotations

from typing import Annotated

import typer

from recordari.context import assemble, profiles
from recordari.context.assemble import Context
from recordari.context.rules.context import Iteration, Rendering
from recordari.kit.commands import (
    DEVELOPMENT_TENANT,
    Agent,
    Explain,
    Moment,
    Session,
    Tenant,
    User,
    ask,
    read_moment,
)
from recordari.kit.output import Answer, Note, Table, Text


def context(
    question: Annotated[str | None, typer.Argument(help="What the user asks; without it, nothing is recalled.")] = None,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    run: Annotated[str | None, typer.Option(help="The run, for what was handed to it.")] = None,
    profile: Annotated[str | None, typer.Option(help="router, stable, or one of the tenant's own.")] = None,
    budget: Annotated[int | None, typer.Option(help="Most tokens.")] = None,
    render: Annotated[Rendering, typer.Option(help="The form of the context.")] = Rendering.TEXT,
    as_of: Moment = None,
    iterate: Annotated[Iteration, typer.Option(help="Ask in several rounds.")] = Iteration.AUTO,
    explain: Explain = False,
) -> Answer:
    """Print what an agent would see for a question, within its budget of tokens."""
    moment = read_moment(as_of)
    found = ask(
        lambda caller: assemble.get_context(
            *caller.bound(caller.identity.narrowed(run_id=run)),
            question,
            profile=profile,
            budget=budget,
            render=render,
            as_of=moment,
            iterate=iterate,
            explain=explain,
        ),
        tenant,
        user=user,
        agent=agent,
        session=session,
    )
    left_out = found.trace["left_out"].items() if found.trace is not None else ()
    return Answer(
        found,
        *_parts(found),
        Note(f"{found.tokens} of {found.budget} tokens; {found.left} left for the results of tools"),
        Note("left out: " + "; ".join(f"{name}: {reason}" for name, reason in left_out)) if explain else None,
    )


def _parts(found: Context) -> list[Table | Text]:
    if found.messages is not None:
        return [Text(f"{message.role}:\n{message.content}") for message in found.messages]
    if found.text is not None:
        return [Text(found.text)]
    rows = [
        {"section": section.name, "ref": one.ref, "tokens": one.tokens, "trust": one.trust, "text": one.content}
        for section in found.sections
        for one in section.items
    ]
    return [Table(rows, empty="nothing to show")]


def profile(*, user: User = None, agent: Agent = None, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Print what is known of a user or an agent, in a few hundred tokens."""
    found = ask(lambda caller: profiles.profile(*caller, user=user, agent=agent), tenant)
    return Answer(found, Text(found.content or "nothing is known yet"))
