"""`recordari db`: the database, embedded or your own."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from recordari.config import Settings
from recordari.db.address import bring_up_to_date, embedded_server, open_address, owner_of, setup_script
from recordari.errors import ConfigurationError, RecordariError
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask, open_resources, read_settings
from recordari.kit.output import (
    AsJson,
    Yes,
    confirm,
    counted,
    print_json,
    print_line,
    print_note,
    print_record,
    print_table,
    record,
    size,
)
from recordari.memory.index import Reembedding
from recordari.operations import maintenance, reports
from recordari.operations.doctor import State, diagnose, has_failed

db_commands = typer.Typer()

BackupFile = Annotated[Path, typer.Argument(help="The backup.", dir_okay=False)]
Erasures = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the journals of erasures; `erasures` in RECORDARI_HOME, if left out.", file_okay=False
    ),
]


@db_commands.command()
def start() -> None:
    """Start the embedded database, so that it stays until `recordari db stop`."""
    server = embedded_server(_embedded_settings())
    server.start_detached()
    print_line(f"the database runs on {server.data_dir}")


@db_commands.command()
def stop(
    *,
    mode: Annotated[
        Literal["smart", "fast", "immediate"],
        typer.Option(help="smart waits for its users, fast ends their transactions, immediate does not tidy up."),
    ] = "fast",
    yes: Yes = False,
) -> None:
    """Stop the embedded database; asks when somebody uses it."""
    server = embedded_server(_embedded_settings())
    if users := server.status().users:
        confirm(f"{users} {'process uses' if users == 1 else 'processes use'} the database. Stop it?", yes=yes)
    server.stop(mode)
    print_line("the database is stopped")


@db_commands.command()
def status(*, as_json: AsJson = False) -> None:
    """Say where the database is and whether it runs; exit code 3 when the embedded one does not."""
    settings = read_settings()
    if settings.database_url is not None:
        checks = asyncio.run(_look_at_configured(settings))
        if as_json:
            print_json(checks)
        else:
            print_table(checks, empty="nothing is known of the database")
        raise typer.Exit(1 if any(check["state"] == "fail" for check in checks) else 0)
    info = embedded_server(settings).status()
    (print_json if as_json else print_record)(record(info))
    raise typer.Exit(0 if info.running else 3)


@db_commands.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def psql(context: typer.Context) -> None:
    """Open psql as the owner of the database, past row-level security; further arguments go to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for psql: it cancels a query there
    raise typer.Exit(asyncio.run(_psql(read_settings(), context.args)))


@db_commands.command()
def migrate(*, as_json: AsJson = False) -> None:
    """Bring the schema to this version."""
    applied = asyncio.run(_migrate(read_settings(auto_migrate=True)))
    if as_json:
        print_json({"applied": applied})
    else:
        print_line(f"{counted(len(applied), 'migration')} applied" if applied else "the schema is up to date")


@db_commands.command()
def init(
    *,
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="Print what an administrator must run, and change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Prepare a database: roles, extensions and schemas where permitted, then the migrations."""
    settings = read_settings(auto_migrate=True)
    if print_sql:
        sys.stdout.write(setup_script(settings))
        return
    applied = asyncio.run(_migrate(settings))
    checks = asyncio.run(diagnose(settings))
    if as_json:
        print_json({"applied": applied, "ok": not has_failed(checks)})
    else:
        print_line(f"the database is ready; {counted(len(applied), 'migration')} applied")
    if has_failed(checks):
        print_note("something else does not work yet; `recordari doctor` tells what")
        raise typer.Exit(1)


@db_commands.command()
def backup(file: BackupFile, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Write the whole database into one file, while it is in use."""
    file = file.expanduser().absolute()
    if file.exists():
        confirm(f"{file} exists. Replace it?", yes=yes)

    async def run() -> int:
        settings = read_settings()
        async with open_address(settings) as address:
            return await maintenance.back_up(owner_of(address), _programs(settings), file)

    written = asyncio.run(run())
    if as_json:
        print_json({"file": file, "bytes": written})
    else:
        print_line(f"{file}: {size(written)}; it holds what every tenant remembers, keep it safe")


@db_commands.command()
def restore(file: BackupFile, *, erasures: Erasures = None, as_json: AsJson = False) -> None:
    """Bring a backup into an empty database, all or nothing, and forget again what was forgotten since.

    A database with tenants is refused.
    """
    file = file.expanduser().absolute()

    async def run() -> maintenance.Restored:
        settings = read_settings()
        async with open_address(settings) as address:
            return await maintenance.restore(
                owner_of(address), _programs(settings), file, login=address.login, password=address.password
            )

    restored = asyncio.run(run())
    try:
        reapplied = asyncio.run(_reapply(read_settings(), erasures))
    except RecordariError:
        print_note("restored, but what was forgotten since may be back; then run `recordari db reapply-erasures`")
        raise
    if as_json:
        print_json({**record(restored), "erasures": [record(one) for one in reapplied]})
    else:
        print_table([{"table": name, "rows": rows} for name, rows in restored.counts.items()], empty="no rows")
        print_line(f"restored; {len(restored.migrations)} newer migrations applied")
        _print_reapplied(reapplied)


@db_commands.command("reapply-erasures")
def reapply_erasures(*, erasures: Erasures = None, as_json: AsJson = False) -> None:
    """Forget again what the journals of erasures say was forgotten; `restore` does it too."""
    reapplied = asyncio.run(_reapply(read_settings(), erasures))
    if as_json:
        print_json([record(one) for one in reapplied])
    else:
        _print_reapplied(reapplied)


def _print_reapplied(reapplied: list[maintenance.TenantReapplied]) -> None:
    if not reapplied:
        print_note(
            "there is no journal of erasures here: what was forgotten after the backup is in it; where the journals are "
            "in another home, name its folder with `recordari db reapply-erasures --erasures HOME/erasures`"
        )
        return
    print_table([record(one) for one in reapplied], empty="nothing")
    print_line("what was forgotten after the backup is forgotten again")


async def _reapply(settings: Settings, folder: Path | None) -> list[maintenance.TenantReapplied]:
    # Forgetting needs no model.
    without_models = settings.model_copy(update={"embedding_provider": "none", "rerank_provider": "none"})
    async with open_address(settings) as address, open_resources(without_models) as resources:
        return await maintenance.reapply_erasures(resources, owner_of(address), folder)


def _embedded_settings() -> Settings:
    settings = read_settings()
    if settings.database_url is not None:
        raise ConfigurationError(
            "RECORDARI_DATABASE_URL names a PostgreSQL of your own, which Recordari does not start or stop; "
            "use its own tools"
        )
    return settings


def _programs(settings: Settings) -> Path:
    return embedded_server(settings).binary("pg_dump").parent


async def _migrate(settings: Settings) -> list[str]:
    async with open_address(settings) as address:
        owner_of(address)
        return await bring_up_to_date(settings, address)


async def _look_at_configured(settings: Settings) -> list[dict[str, Any]]:
    names = {"database", "role", "extensions", "migrations"}
    return [record(check) for check in await diagnose(settings) if check.name in names]


async def _psql(settings: Settings, arguments: list[str]) -> int:
    async with open_address(settings) as address:
        return await asyncio.to_thread(maintenance.run_psql, owner_of(address), _programs(settings), arguments)


STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    *,
    no_start: Annotated[bool, typer.Option("--no-start", help="Do not start the embedded database.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what works, what is missing, and what to do about it; exit code 1 when something does not work."""
    checks = asyncio.run(diagnose(read_settings(), start=not no_start))
    if as_json:
        print_json({"ok": not has_failed(checks), "checks": checks})
    else:
        rows = [
            {
                "state": check.state,
                "check": check.name,
                "found": check.found if check.state is State.OK else f"{check.found} → {check.advice}",
            }
            for check in checks
        ]
        print_table(rows, empty="nothing to look at", styles=STYLES)
    if has_failed(checks):
        raise typer.Exit(1)


def stats(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show what memory holds, what waits, what was given up, how large it is, and the quota."""
    found = ask(lambda caller: reports.memory_stats(*caller), tenant)
    if as_json:
        print_json(record(found))
        return
    counted = {
        f"{name.removeprefix('by_')} {key}": number
        for name in ("by_state", "by_kind", "by_tier", "by_scope")
        for key, number in sorted(getattr(found, name).items())
    }
    print_record(
        {
            "items": found.items,
            **counted,
            "pinned": found.pinned,
            "text": size(found.content_bytes),
            **record(found.others),
            "payload_bytes": size(found.others.payload_bytes),
            "pending embeddings": found.pending_embeddings,
            "embedding model": found.embedding_model,
            **_moving(found.reembedding),
            "dead letters": found.dead_letters,
            **{f"quota {name}": f"{share:.1%}" for name, share in found.quota.shares.items()},
        }
    )
    for warning in found.quota.warnings:
        print_note(f"warning: {warning}")


def _moving(reembedding: Reembedding | None) -> dict[str, str]:
    if reembedding is None:
        return {}
    return {"moving to": f"{reembedding.model_id}, {reembedding.done} of {reembedding.total} embedded"}
