"""`recordari jobs`: list, dead, replay, discard."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from recordari.db.jobs import JobStatus
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask, open_memory
from recordari.kit.output import (
    AsJson,
    Yes,
    confirm,
    counted,
    print_json,
    print_line,
    print_table,
    record,
)
from recordari.memory import index
from recordari.memory.cli import PATIENCE, note_waiting, progress_bar, settle
from recordari.memory.index import Reembedding
from recordari.worker import jobs

jobs_commands = typer.Typer()

STYLES = {"succeeded": "green", "doing": "cyan", "failed": "bold red"}

Limit = Annotated[int, typer.Option(min=1, max=100, help="Most lines.")]
LetterId = Annotated[str, typer.Argument(help="Id of the dead letter, from `recordari jobs dead`.")]


@jobs_commands.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    status: Annotated[JobStatus | None, typer.Option(help="Only jobs that stand here.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List a tenant's jobs, newest first."""
    found = ask(lambda caller: jobs.list_jobs(*caller, status=status, limit=limit), tenant)
    if as_json:
        print_json(found)
    else:
        print_table([record(job) for job in found], empty="there are no jobs", styles=STYLES)


@jobs_commands.command()
def run(
    job: Annotated[str, typer.Argument(help="Name of the job; a wrong one is answered with all names.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Run a job of the tenant now instead of at its time; a worker does it."""
    job_id = ask(lambda caller: jobs.enqueue_job(*caller, job), tenant)
    if as_json:
        print_json({"job": job, "job_id": job_id})
    else:
        print_line(f"job {job_id}" if job_id is not None else "it waits already")


@jobs_commands.command()
def counts(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Count the work that waits, runs, is done and was given up."""
    found = ask(lambda caller: jobs.job_counts(*caller), tenant)
    if as_json:
        print_json(record(found))
        return
    rows = [
        {"what": what, "name": name, "number": number}
        for what, counted in record(found).items()
        for name, number in counted.items()
    ]
    print_table(rows, empty="there is no work")


@jobs_commands.command()
def dead(*, tenant: Tenant = DEVELOPMENT_TENANT, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List work that was given up after its last try."""
    rows = [
        {"id": each.dead_letter_id, **record(each, without=("kind", "number"))}
        for each in ask(lambda caller: jobs.list_dead_letters(*caller, limit=limit), tenant)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty="nothing was given up")


@jobs_commands.command()
def replay(
    dead_letter_id: Annotated[
        str | None, typer.Argument(help="Id of the dead letter, from `recordari jobs dead`.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every dead letter of the tenant.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Give a dead letter, or all of them, its tries back."""
    if (dead_letter_id is None) != every:
        raise typer.BadParameter("Name one dead letter, or say --all.")

    async def run() -> int:
        async with open_memory(tenant) as caller:
            if dead_letter_id is None:
                return await jobs.replay_dead_letters(*caller)
            await jobs.replay_dead_letter(*caller, dead_letter_id)
            return 1

    _show("replayed", asyncio.run(run()), as_json=as_json)


@jobs_commands.command()
def discard(
    dead_letter_id: LetterId, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Give a dead letter up for good."""
    confirm(f"Give up {dead_letter_id}? What it was to do will not be done.", yes=yes)
    ask(lambda caller: jobs.discard_dead_letter(*caller, dead_letter_id), tenant)
    _show("discarded", 1, as_json=as_json)


def _show(what: str, count: int, *, as_json: bool) -> None:
    if as_json:
        print_json({what: count})
    else:
        print_line(f"{count} {what}")


def reindex(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Derive index columns, vectors and entities again from the rows; it can be stopped and repeated."""

    async def run() -> tuple[int, int]:
        async with open_memory(tenant, worker=True) as caller:
            with progress_bar("index", hidden=as_json) as progress:
                done = await index.reindex(*caller, progress=progress)
            with progress_bar("vectors", hidden=as_json) as progress:
                return done, await settle(caller, patience=PATIENCE, progress=progress)

    done, left = asyncio.run(run())
    if as_json:
        print_json({"items": done, "waiting": left})
    else:
        print_line(f"{counted(done, 'item')} indexed")
        note_waiting(left)


def reembed(
    *,
    model: Annotated[
        str | None, typer.Option(help="Name of the model (`recordari models list`); else the configured one.")
    ] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Move to another embedding model while recall goes on; it can be stopped, and goes on where it stopped."""

    async def run() -> Reembedding:
        async with open_memory(tenant) as caller:
            with progress_bar("vectors", hidden=as_json) as progress:
                return await index.reembed(*caller, model_id=model, progress=progress)

    done = asyncio.run(run())
    if as_json:
        print_json(record(done))
    else:
        print_line(f"{done.done} of {counted(done.total, 'item')} embedded; recall uses {done.model_id} now")
