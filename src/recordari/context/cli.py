"""`recordari context` and `recordari profile`."""

from __future__ import annotations

from typing import Annotated

import typer

from recordari.context import assemble, profiles
from recordari.context.assemble import Context
from recordari.context.rules.context import Iteration, Rendering
from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Explain, Moment, Session, Tenant, User, ask, read_moment
from recordari.kit.output import Answer, Hint, Table, Text


def context(
    question: Annotated[
        str | None, typer.Argument(help="The user's question; without one, nothing is recalled.")
    ] = None,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    run: Annotated[str | None, typer.Option(help="The run, for its delegated values.")] = None,
    profile: Annotated[str | None, typer.Option(help="router, stable, or one of the tenant's own.")] = None,
    budget: Annotated[int | None, typer.Option(help="Maximum tokens.")] = None,
    render: Annotated[Rendering, typer.Option(help="The form of the context.")] = Rendering.TEXT,
    as_of: Moment = None,
    known_at: Moment = None,
    iterate: Annotated[Iteration, typer.Option(help="Recall in several rounds.")] = Iteration.AUTO,
    explain: Explain = False,
) -> Answer:
    """Print the context that an agent gets for a question, within its budget of tokens."""
    moment, known = read_moment(as_of), read_moment(known_at)
    answer = ask(
        lambda caller: assemble.get_context(
            *caller.bound(caller.identity.narrowed(run_id=run)),
            question,
            profile=profile,
            budget=budget,
            render=render,
            as_of=moment,
            known_at=known,
            iterate=iterate,
            explain=explain,
        ),
        tenant,
        user=user,
        agent=agent,
        session=session,
    )
    left_out = answer.trace["left_out"].items() if answer.trace is not None else ()
    return Answer(
        answer,
        *_parts(answer),
        Hint(f"{answer.tokens} of {answer.budget} tokens; {answer.left} left for the results of tools"),
        Hint("left out: " + "; ".join(f"{name}: {reason}" for name, reason in left_out)) if explain else None,
    )


def _parts(answer: Context) -> list[Table | Text]:
    if answer.messages is not None:
        return [Text(f"{message.role}:\n{message.content}") for message in answer.messages]
    if answer.text is not None:
        return [Text(answer.text)]
    rows = [
        {"section": section.name, "ref": item.ref, "tokens": item.tokens, "trust": item.trust, "text": item.content}
        for section in answer.sections
        for item in section.items
    ]
    return [Table(rows, empty="nothing to show")]


def profile(*, user: User = None, agent: Agent = None, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Print the facts about a user or an agent in a few hundred tokens."""
    answer = ask(lambda caller: profiles.profile(*caller, user=user, agent=agent), tenant)
    return Answer(answer, Text(answer.content or "no facts are known yet"))
