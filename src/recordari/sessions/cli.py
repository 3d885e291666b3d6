"""`recordari sessions`: list, show, messages, close; `recordari runs`: list, show, replay."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Limit, Tenant, User, ask
from recordari.kit.commands import Session as InSession
from recordari.kit.output import Answer, Commands, Hint, Record, Table, record
from recordari.kit.verbs import Caller
from recordari.sessions import messages as messages_verbs
from recordari.sessions import runs, sessions
from recordari.sessions.rules.runs import RunStatus
from recordari.sessions.rules.sessions import Session, SessionStatus

sessions_commands = Commands()

SessionId = Annotated[str, typer.Argument(help="Id of the session.")]
COLUMNS = ("session_id", "status", "user_id", "agent_id", "messages", "opened_at", "active_at", "closed_at")


@sessions_commands.command("list")
def list_sessions(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    status: Annotated[SessionStatus | None, typer.Option(help="Only with this status.")] = None,
    before: Annotated[UUID | None, typer.Option(help="Continue after this `session_ref`.")] = None,
    limit: Limit = 50,
) -> Answer:
    """List sessions, newest first."""
    rows = ask(
        lambda caller: sessions.list_sessions(
            *caller, status=status, user_id=user, agent_id=agent, before=before, limit=limit
        ),
        tenant,
    )
    more = f"there may be more: --before {rows[-1].session_ref}" if len(rows) == limit else None
    return Answer(rows, Table(rows, columns=COLUMNS, empty="there are no sessions"), Hint(more) if more else None)


@sessions_commands.command("show")
def show_session(session_id: SessionId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Show a session with its summary and notes."""

    async def run(caller: Caller) -> tuple[Session, list[object]]:
        return await sessions.get_session(*caller, session_id), list(await sessions.list_notes(*caller, session_id))

    session, notes = ask(run, tenant)
    return Answer(
        {**record(session), "notes": notes},
        Record({**_row(session), "summary": session.summary}),
        Table(notes, empty="it has no notes"),
    )


@sessions_commands.command()
def messages(
    session_id: SessionId,
    *,
    after: Annotated[int, typer.Option(min=0, help="Continue after this position.")] = 0,
    limit: Limit = 50,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """List the messages of a session in order."""
    listed = ask(lambda caller: messages_verbs.list_messages(*caller, session_id, after=after, limit=limit), tenant)
    names = {"when": "event_time", "text": "content"}
    columns = ("position", "role", "trust", "speaker", "when", "text")
    rows = [{title: getattr(message, names.get(title, title)) for title in columns} for message in listed]
    return Answer(listed, Table(rows, empty="it has no messages there"))


@sessions_commands.command()
def close(session_id: SessionId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Close a session; later activity under its id opens a successor."""
    closed = ask(lambda caller: sessions.close_session(*caller, session_id), tenant)
    return Answer(closed, Record(_row(closed)))


def _row(session: Session) -> dict[str, object]:
    return {name: getattr(session, name) for name in COLUMNS}


runs_commands = Commands()

RunId = Annotated[str, typer.Argument(help="Id of the run.")]
RUN_COLUMNS = tuple("run_id status agent_id session_id turns calls cost currency started_at ended_at".split())
STYLES = {"completed": "green", "running": "cyan", "failed": "bold red"}


@runs_commands.command("list")
def list_runs(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    agent: Agent = None,
    session: InSession = None,
    status: Annotated[RunStatus | None, typer.Option(help="Only with this status.")] = None,
    before: Annotated[UUID | None, typer.Option(help="Continue after this `run_ref`.")] = None,
    limit: Limit = 50,
) -> Answer:
    """List runs, newest first."""
    rows = ask(
        lambda caller: runs.list_runs(
            *caller, status=status, agent_id=agent, session_id=session, before=before, limit=limit
        ),
        tenant,
    )
    more = f"there may be more: --before {rows[-1].run_ref}" if len(rows) == limit else None
    table = Table(rows, columns=RUN_COLUMNS, empty="there are no runs", styles=STYLES)
    return Answer(rows, table, Hint(more) if more else None)


@runs_commands.command("show")
def show_run(run_id: RunId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Show one run."""
    run = ask(lambda caller: runs.get_run(*caller, run_id), tenant)
    return Answer(run, Record({name: getattr(run, name) for name in (*RUN_COLUMNS, "input", "error")}))


@runs_commands.command()
def replay(
    run_id: RunId,
    *,
    results: Annotated[bool, typer.Option("--results/--no-results", help="Show the whole results.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Print every tool call of a run in order, exactly as recorded."""
    replayed = ask(lambda caller: runs.replay_run(*caller, run_id, results=results), tenant)
    rows = [
        {
            "call": call.number,
            "turn": call.turn,
            "tool": call.name,
            "arguments": call.arguments,
            "result": call.result if results else (f"{call.result_bytes} bytes" if call.result_bytes else None),
            "error": call.error,
        }
        for call in replayed.calls
    ]
    return Answer(replayed, Table(rows, empty="it called no tool"))
