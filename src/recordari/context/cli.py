"""`recordari context`, `recordari profile` and `recordari questions`."""

from __future__ import annotations

from typing import Annotated

import typer

from recordari.context import assemble, profiles, questions
from recordari.context.assemble import Context
from recordari.context.rules.context import Iteration, Rendering
from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Explain, Moment, Session, Tenant, User, ask, read_moment
from recordari.kit.output import Answer, Commands, Hint, Record, Table, Text


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


questions_commands = Commands()

QuestionName = Annotated[str, typer.Argument(help="Name of the question.")]


@questions_commands.command()
def save(
    name: QuestionName,
    question: Annotated[str, typer.Argument(help="What to answer for every user.")],
    *,
    agent: Agent = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Record:
    """Ask a standing question, for all agents or for one."""
    return Record(ask(lambda caller: questions.save_question(*caller, name, question, agent=agent), tenant))


@questions_commands.command("list")
def list_questions(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the standing questions."""
    rows = ask(lambda caller: questions.list_questions(*caller), tenant)
    return Table(rows, empty="no question is asked; `recordari questions save` asks one")


@questions_commands.command()
def remove(name: QuestionName, *, agent: Agent = None, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Remove a standing question with its answers."""
    ask(lambda caller: questions.delete_question(*caller, name, agent=agent), tenant)
    return Answer({"removed": name}, f"removed {name}")


@questions_commands.command("answer")
def standing_answer(
    name: QuestionName, *, user: User = None, agent: Agent = None, tenant: Tenant = DEVELOPMENT_TENANT
) -> Answer:
    """Print the answer to a standing question for a user, with the ids of its sources."""
    found = ask(lambda caller: questions.standing_answer(*caller, name), tenant, user=user, agent=agent)
    sources = ", ".join(map(str, found.sources))
    return Answer(
        found,
        Text(found.content or "nothing is known about this yet"),
        Hint(f"written by {found.writer} from {sources}") if sources else None,
    )
