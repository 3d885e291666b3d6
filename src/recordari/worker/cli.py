"""`recordari jobs`: list, run, counts, schedule, dead, replay, discard; `recordari reindex` and `reembed`."""

from __future__ import annotations

from typing import Annotated

import typer

from recordari.db.jobs import JobStatus
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, Yes, ask
from recordari.kit.output import Answer, Commands, Table, confirm, counted, record
from recordari.kit.verbs import Caller
from recordari.memory import index
from recordari.memory.cli import ask_and_embed, left_to_worker, progress_bar
from recordari.memory.index import Reembedding
from recordari.worker import jobs

jobs_commands = Commands()

STYLES = {"succeeded": "green", "doing": "cyan", "failed": "bold red"}

Limit = Annotated[int, typer.Option(min=1, max=100, help="Most lines.")]
LETTER = "Id of the dead letter, from `recordari jobs dead`."


@jobs_commands.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    status: Annotated[JobStatus | None, typer.Option(help="Only jobs with this status.")] = None,
    limit: Limit = 50,
) -> Table:
    """List the jobs of a tenant, newest first."""
    rows = ask(lambda caller: jobs.list_jobs(*caller, status=status, limit=limit), tenant)
    return Table(rows, empty="there are no jobs", styles=STYLES)


@jobs_commands.command()
def run(
    job: Annotated[str, typer.Argument(help="Name of the job; a wrong one is answered with all names.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Run a job of the tenant now; a worker does it."""
    job_id = ask(lambda caller: jobs.enqueue_job(*caller, job), tenant)
    return Answer({"job": job, "job_id": job_id}, f"job {job_id}" if job_id is not None else "it waits already")


@jobs_commands.command()
def counts(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Count the background work: waiting, running, done and dead."""
    work = ask(lambda caller: jobs.job_counts(*caller), tenant)
    rows = [
        {"what": what, "name": name, "number": number}
        for what, numbers in record(work).items()
        for name, number in numbers.items()
    ]
    return Answer(work, Table(rows, empty="there is no work"))


@jobs_commands.command()
def schedule(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the jobs that run by the clock, the next one first."""
    return Table(ask(lambda caller: jobs.job_schedule(*caller), tenant), empty="no job runs by the clock")


@jobs_commands.command()
def dead(*, tenant: Tenant = DEVELOPMENT_TENANT, limit: Limit = 50) -> Table:
    """List work that failed at its last try."""
    letters = ask(lambda caller: jobs.list_dead_letters(*caller, limit=limit), tenant)
    rows = [{"id": letter.dead_letter_id, **record(letter, without=("kind", "number"))} for letter in letters]
    return Table(rows, empty="nothing was given up")


@jobs_commands.command()
def replay(
    dead_letter_id: Annotated[str | None, typer.Argument(help=LETTER)] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every dead letter of the tenant.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Run a dead letter, or all of them, again."""
    if (dead_letter_id is None) != every:
        raise typer.BadParameter("Name one dead letter, or use --all.")

    async def run(caller: Caller) -> int:
        if dead_letter_id is None:
            return await jobs.replay_dead_letters(*caller)
        await jobs.replay_dead_letter(*caller, dead_letter_id)
        return 1

    replayed = ask(run, tenant)
    return Answer({"replayed": replayed}, f"{replayed} replayed")


@jobs_commands.command()
def discard(
    dead_letter_id: Annotated[str, typer.Argument(help=LETTER)],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
) -> Answer:
    """Discard a dead letter for good."""
    confirm(f"Discard {dead_letter_id}? Its work will not be done.", yes=yes)
    ask(lambda caller: jobs.discard_dead_letter(*caller, dead_letter_id), tenant)
    return Answer({"discarded": 1}, "1 discarded")


def reindex(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Derive index columns, vectors and entities again from the rows; you can stop and repeat it."""
    done, left = ask_and_embed(lambda caller, progress: index.reindex(*caller, progress=progress), "index", tenant)
    return Answer({"items": done, "waiting": left}, f"{counted(done, 'item')} indexed", left_to_worker(left))


def reembed(
    *,
    model: Annotated[
        str | None, typer.Option(help="Name of the model (`recordari models list`); the configured one by default.")
    ] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Move to another embedding model while recall goes on; you can stop and continue it."""

    async def run(caller: Caller) -> Reembedding:
        with progress_bar("vectors") as progress:
            return await index.reembed(*caller, model_id=model, progress=progress)

    result = ask(run, tenant)
    summary = f"{result.done} of {counted(result.total, 'item')} embedded; recall uses {result.model_id} now"
    return Answer(result, summary)
