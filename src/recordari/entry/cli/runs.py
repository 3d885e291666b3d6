"""`recordari runs`: list, show, replay."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from recordari.domain.runs import Run, RunStatus
from recordari.kit.commands import Agent, Session, Tenant, ask
from recordari.kit.output import AsJson, print_json, print_note, print_record, print_table, record
from recordari.service.maintenance import DEVELOPMENT_TENANT

app = typer.Typer()

RunId = Annotated[str, typer.Argument(help="Id of the run.")]
COLUMNS = ("run_id", "status", "agent_id", "session_id", "turns", "calls", "cost", "currency", "started_at", "ended_at")
STYLES = {"completed": "green", "running": "cyan", "failed": "bold red"}


@app.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    agent: Agent = None,
    session: Session = None,
    status: Annotated[RunStatus | None, typer.Option(help="Only those.")] = None,
    before: Annotated[UUID | None, typer.Option(help="Go on after this `run_ref`.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most lines.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    found = ask(
        lambda memory: memory.list_runs(status=status, agent_id=agent, session_id=session, before=before, limit=limit),
        tenant,
    )
    if as_json:
        print_json(found)
        return
    print_table([_row(run) for run in found], empty="there are no runs", styles=STYLES)
    if len(found) == limit:
        print_note(f"there may be more: --before {found[-1].run_ref}")


@app.command()
def show(run_id: RunId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show one run."""
    run = ask(lambda memory: memory.get_run(run_id), tenant)
    if as_json:
        print_json(record(run))
    else:
        print_record({**_row(run), "input": run.input, "error": run.error})


@app.command()
def replay(
    run_id: RunId,
    *,
    results: Annotated[bool, typer.Option("--results/--no-results", help="With the whole results.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Print every tool call of a run in order, exactly as recorded."""
    found = ask(lambda memory: memory.replay_run(run_id, results=results), tenant)
    if as_json:
        print_json(record(found))
        return
    rows = [
        {
            "call": call.number,
            "turn": call.turn,
            "tool": call.name,
            "arguments": call.arguments,
            "result": call.result if results else (f"{call.result_bytes} bytes" if call.result_bytes else None),
            "error": call.error,
        }
        for call in found.calls
    ]
    print_table(rows, empty="it called no tool")


def _row(run: Run) -> dict[str, object]:
    return {name: getattr(run, name) for name in COLUMNS}
