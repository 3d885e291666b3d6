"""`recordari db`, `doctor`, `settings`, `stats` and `models`: commands for operators."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from recordari.config import Settings, list_settings
from recordari.db import cluster
from recordari.db.address import Address, bring_up_to_date, embedded_server, open_address, owner_of, setup_script
from recordari.db.backup import run_psql
from recordari.errors import ConfigurationError, RecordariError
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, Yes, ask, open_resources, read_settings
from recordari.kit.output import (
    Answer,
    Commands,
    Hint,
    Record,
    Table,
    clean,
    confirm,
    console,
    counted,
    print_note,
    record,
    size,
)
from recordari.models import pull as model_files
from recordari.models.pull import PullProgress
from recordari.operations import maintenance, reports
from recordari.operations.doctor import Check, State, diagnose, has_failed
from recordari.operations.self_check import WAIT_SECONDS
from recordari.operations.self_check import self_check as run_self_check

T = TypeVar("T")

db_commands = Commands()

BackupFile = Annotated[Path, typer.Argument(help="The backup.", dir_okay=False)]
Erasures = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the journals of erasures; `erasures` in RECORDARI_HOME by default.", file_okay=False
    ),
]


@db_commands.command()
def start() -> Answer:
    """Start the embedded database; it runs until `recordari db stop`."""
    server = embedded_server(_embedded_settings())
    server.start_detached()
    return Answer(server.status(), f"the database runs on {server.data_dir}")


@db_commands.command()
def stop(
    *,
    mode: Annotated[
        Literal["smart", "fast", "immediate"],
        typer.Option(help="smart waits for its users, fast ends their transactions, immediate does not clean up."),
    ] = "fast",
    yes: Yes = False,
) -> Answer:
    """Stop the embedded database; asks you first if it is in use."""
    server = embedded_server(_embedded_settings())
    if users := server.status().users:
        confirm(f"{users} {'process uses' if users == 1 else 'processes use'} the database. Stop it?", yes=yes)
    server.stop(mode)
    return Answer(server.status(), "the database is stopped")


@db_commands.command()
def status() -> Answer:
    """Show where the database is and whether it runs; exit code 3 when the embedded one does not."""
    settings = read_settings()
    if settings.database_url is None:
        info = embedded_server(settings).status()
        return Answer(info, Record(info), code=0 if info.running else 3)
    names = {"database", "role", "extensions", "migrations", "cluster"}
    checks = [check for check in asyncio.run(diagnose(settings)) if check.name in names]
    return Answer(checks, Table(checks, empty="there are no checks"), code=1 if has_failed(checks) else 0)


@db_commands.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def psql(context: typer.Context) -> None:
    """Open psql as the owner of the database, past row-level security; further arguments go to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for psql: it cancels a query there
    raise typer.Exit(
        _with_address(lambda address, programs: asyncio.to_thread(run_psql, owner_of(address), programs, context.args))
    )


@db_commands.command()
def migrate() -> Answer:
    """Bring the schema to this version."""
    applied = asyncio.run(_migrate(read_settings(auto_migrate=True)))
    summary = f"{counted(len(applied), 'migration')} applied" if applied else "the schema is up to date"
    return Answer({"applied": applied}, summary)


@db_commands.command()
def init(
    *,
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="Print the SQL for an administrator, and change nothing.")
    ] = False,
) -> Answer | None:
    """Prepare a database: roles, extensions and schemas where permitted, then the migrations."""
    settings = read_settings(auto_migrate=True)
    if print_sql:
        sys.stdout.write(setup_script(settings))
        return None
    applied = asyncio.run(_migrate(settings))
    failed = has_failed(asyncio.run(diagnose(settings)))
    return Answer(
        {"applied": applied, "ok": not failed},
        f"the database is ready; {counted(len(applied), 'migration')} applied",
        Hint("something else does not work yet; run `recordari doctor`") if failed else None,
        code=1 if failed else 0,
    )


@db_commands.command()
def distribute(
    *,
    shards: Annotated[
        int, typer.Option(help="Into how many parts; a node holds several, and a part can be moved.", min=1, max=1024)
    ] = cluster.SHARDS,
    yes: Yes = False,
) -> Answer:
    """Divide the database by tenant among the nodes of its Citus cluster; stop servers and workers first."""
    confirm("Move the rows of every tenant to the worker nodes?", yes=yes)
    tables = _with_address(lambda address, _: cluster.distribute(owner_of(address), shards=shards))
    return Answer({"tables": tables}, f"{counted(len(tables), 'table')} divided by tenant; start the servers again")


@db_commands.command()
def undistribute(*, yes: Yes = False) -> Answer:
    """Bring every table back from the nodes of a cluster to one server; stop servers and workers first."""
    confirm("Move the rows of every tenant to the coordinator?", yes=yes)
    tables = _with_address(lambda address, _: cluster.undistribute(owner_of(address)))
    return Answer({"tables": tables}, f"{counted(len(tables), 'table')} brought back; start the servers again")


@db_commands.command()
def backup(file: BackupFile, *, yes: Yes = False) -> Answer:
    """Write the whole database into one file, while it is in use."""
    file = file.expanduser().absolute()
    if file.exists():
        confirm(f"{file} exists. Replace it?", yes=yes)
    written = _with_address(lambda address, programs: maintenance.back_up(owner_of(address), programs, file))
    summary = f"{file}: {size(written)}; it contains the memory of every tenant, keep it safe"
    return Answer({"file": file, "bytes": written}, summary)


@db_commands.command()
def restore(file: BackupFile, *, erasures: Erasures = None) -> Answer:
    """Restore a backup into an empty database, all or nothing, and repeat the erasures since.

    A database with tenants is refused.
    """
    file = file.expanduser().absolute()
    restored = _with_address(
        lambda address, programs: maintenance.restore(
            owner_of(address), programs, file, login=address.login, password=address.password
        )
    )
    try:
        reapplied = asyncio.run(_reapply(read_settings(), erasures))
    except RecordariError:
        print_note("restored, but forgotten memory may be back; run `recordari db reapply-erasures`")
        raise
    return Answer(
        {**record(restored), "erasures": reapplied},
        Table([{"table": name, "rows": rows} for name, rows in restored.counts.items()], empty="no rows"),
        f"restored; {counted(len(restored.migrations), 'newer migration')} applied",
        *_reapplied(reapplied),
    )


@db_commands.command()
def upgrade(
    *,
    programs: Annotated[
        Path | None,
        typer.Option("--from", help="Folder of the old version's programs; else the system's.", file_okay=False),
    ] = None,
) -> Answer:
    """Move the embedded database to the PostgreSQL that is installed now; the data of before is kept beside it.

    Nothing else may use the database meanwhile.
    """
    upgraded = asyncio.run(maintenance.upgrade_postgres(_embedded_settings(), programs))
    if upgraded is None:
        return Answer({}, "the database is of the installed PostgreSQL already")
    return Answer(
        upgraded,
        f"from PostgreSQL {upgraded.before} to {upgraded.after}: {counted(upgraded.rows, 'row')}",
        Hint(f"run `recordari self-check`, then remove {upgraded.kept}"),
    )


@db_commands.command("reapply-erasures")
def reapply_erasures(*, erasures: Erasures = None) -> Answer:
    """Repeat the erasures of the journals; `restore` does it too."""
    reapplied = asyncio.run(_reapply(read_settings(), erasures))
    return Answer(reapplied, *_reapplied(reapplied))


def _reapplied(reapplied: list[maintenance.TenantReapplied]) -> list[Table | Hint | str]:
    if reapplied:
        return [Table(reapplied, empty="nothing"), "the erasures since the backup are repeated"]
    return [
        Hint(
            "there is no journal of erasures here, so memory that was forgotten after the backup is back; if the journals "
            "are in another home, name their folder: `recordari db reapply-erasures --erasures HOME/erasures`"
        )
    ]


async def _reapply(settings: Settings, folder: Path | None) -> list[maintenance.TenantReapplied]:
    # Forgetting needs no model.
    none = {"embedding_provider": "none", "embedding_profile": "best", "rerank_provider": "none"}
    without_models = settings.model_copy(update=none)
    async with open_address(settings) as address, open_resources(without_models) as resources:
        return await maintenance.reapply_erasures(resources, owner_of(address), folder)


def _embedded_settings() -> Settings:
    settings = read_settings()
    if settings.database_url is not None:
        raise ConfigurationError(
            "RECORDARI_DATABASE_URL names a PostgreSQL of your own; Recordari does not start or stop it, use its own tools"
        )
    return settings


def _with_address(verb: Callable[[Address, Path], Awaitable[T]]) -> T:
    """Run a verb with the address of the database and the folder of the PostgreSQL programs."""

    async def run(settings: Settings) -> T:
        async with open_address(settings) as address:
            return await verb(address, embedded_server(settings).binary("pg_dump").parent)

    return asyncio.run(run(read_settings()))


async def _migrate(settings: Settings) -> list[str]:
    async with open_address(settings) as address:
        owner_of(address)
        return await bring_up_to_date(settings, address)


STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "missing": "yellow", "corrupt": "bold red"}


def doctor(
    *,
    no_start: Annotated[bool, typer.Option("--no-start", help="Do not start the embedded database.")] = False,
) -> Answer:
    """Check everything Recordari needs, with advice; exit code 1 when something does not work."""
    checks = asyncio.run(diagnose(read_settings(), start=not no_start))
    return _checked(checks)


def self_check(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    wait: Annotated[float, typer.Option(min=0, help="Seconds that background work may take.")] = WAIT_SECONDS,
) -> Answer:
    """Check an installation after an upgrade: `doctor`, then remember, recall and erase as a user made for it."""
    checks = asyncio.run(diagnose(read_settings()))
    if not has_failed(checks):
        checks += ask(lambda caller: run_self_check(*caller, wait=wait), tenant, worker=True)
    return _checked(checks)


def _checked(checks: list[Check]) -> Answer:
    failed = has_failed(checks)
    rows = [
        {
            "state": check.state,
            "check": check.name,
            "found": check.found if check.state is State.OK else f"{check.found} → {check.advice}",
        }
        for check in checks
    ]
    return Answer(
        {"ok": not failed, "checks": checks},
        Table(rows, empty="there are no checks", styles=STYLES),
        code=1 if failed else 0,
    )


def stats(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Show the figures of a tenant: items, pending work, dead letters and the quota."""
    figures = ask(lambda caller: reports.memory_stats(*caller), tenant)
    counts = {
        f"{name.removeprefix('by_')} {key}": number
        for name in ("by_state", "by_kind", "by_layer", "by_tier", "by_scope")
        for key, number in sorted(getattr(figures, name).items())
    }
    move = figures.reembedding
    moving = {} if move is None else {"moving to": f"{move.model_id}, {move.done} of {move.total} embedded"}
    shown = {
        "items": figures.items,
        **counts,
        "pinned": figures.pinned,
        "text": size(figures.content_bytes),
        **record(figures.others),
        "payload_bytes": size(figures.others.payload_bytes),
        "pending embeddings": figures.pending_embeddings,
        "embedding model": figures.embedding_model,
        **moving,
        "dead letters": figures.dead_letters,
        **{f"quota {name}": f"{share:.1%}" for name, share in figures.quota.shares.items()},
    }
    return Answer(figures, Record(shown), *(Hint(f"warning: {warning}") for warning in figures.quota.warnings))


def settings(
    name: Annotated[str, typer.Argument(help="Only settings whose name has this in it, such as `embedding`.")] = "",
) -> Table:
    """List the settings: variable, default and meaning, and whether each is set here.

    Set them in the environment or in a `.env` file in the working folder. Lists and objects are written as JSON.
    """
    found = [one for one in list_settings(read_settings()) if name.upper() in one.variable]
    return Table(found, empty="no setting has this in its name")


models_commands = Commands()

ModelNames = Annotated[list[str] | None, typer.Argument(help="Names of models; the needed ones by default.")]


@models_commands.command("list")
def list_models() -> Answer:
    """List the models, and which are on this machine."""
    models = model_files.list_models(read_settings())
    rows = [{**record(model, without=("bytes",)), "size": size(model.bytes)} for model in models]
    return Answer(models, Table(rows, empty="no models are known"))


@models_commands.command()
def pull(names: ModelNames = None) -> Answer:
    """Download models, unless they are installed and intact."""
    settings = read_settings()
    folders = {}
    for name in names or model_files.needed_models(settings):
        with _progress_bar(name) as progress:
            folders[name] = asyncio.run(model_files.pull_model(settings, name, progress=progress))
    return Answer(folders, *(f"{name}: {folder}" for name, folder in folders.items()))


@models_commands.command()
def mirror(
    folder: Annotated[Path, typer.Argument(help="Folder to fill; serve it as files, or copy it.", file_okay=False)],
    names: ModelNames = None,
) -> Answer:
    """Fill a folder that other machines take models from (RECORDARI_MODEL_MIRROR), for closed networks."""
    settings = read_settings()
    places = {}
    for name in names or model_files.needed_models(settings):
        with _progress_bar(name) as progress:
            places[name] = asyncio.run(model_files.mirror_model(settings, name, folder, progress=progress))
    lines = [f"{name}: {place}" for name, place in places.items()]
    return Answer(places, *lines, f"set RECORDARI_MODEL_MIRROR to {folder}, or to the address that serves it")


@models_commands.command()
def verify(names: ModelNames = None) -> Answer:
    """Compare every file of a model with its SHA-256; exit code 1 when one is missing or changed."""
    settings = read_settings()
    reports = [
        asyncio.run(model_files.verify_model(settings, name)) for name in names or model_files.needed_models(settings)
    ]
    rows = [
        {"model": report.model, "file": file, "state": state}
        for report in reports
        for file, state in report.files.items()
    ]
    return Answer(
        [{"model": report.model, "ok": report.ok, "files": dict(report.files)} for report in reports],
        Table(rows, empty="nothing to verify", styles=STYLES),
        code=0 if all(report.ok for report in reports) else 1,
    )


@contextmanager
def _progress_bar(name: str) -> Iterator[Callable[[PullProgress], None]]:
    """Draw the progress of a pull on standard error, if that is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    terminal = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=terminal, disable=not terminal.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def show(step: PullProgress) -> None:
            description = f"{name}: {step.stage} {clean(step.detail)}".rstrip()
            bar.update(task, description=description, completed=step.done, total=step.total or None)

        yield show
