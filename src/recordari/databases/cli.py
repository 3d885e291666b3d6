"""`recordari database`: add, list, refresh, remove, ask."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from recordari.databases import ask as ask_verbs
from recordari.databases import registry
from recordari.databases.rules.databases import ConnectedDatabase, DataAnswer
from recordari.errors import NotFound
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, open_memory
from recordari.kit.output import (
    AsJson,
    Yes,
    confirm,
    print_json,
    print_line,
    print_note,
    print_record,
    print_table,
    record,
)
from recordari.kit.verbs import Caller

database_commands = typer.Typer()

Name = Annotated[str, typer.Argument(help="Name of the database.")]


@database_commands.command()
def add(
    name: Name,
    *,
    table: Annotated[
        list[str],
        typer.Option("--table", help="A table that may be read: `orders`, `sales.orders`, or `orders(id,total)`."),
    ],
    description: Annotated[str, typer.Option(help="What it knows; agents choose by it.")] = "",
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Connect a database; its DSN is read from standard input, or asked for."""
    # Not an argument: those are seen by every process of the machine and kept by the shell.
    dsn = typer.prompt("DSN", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline().strip()
    tables = dict(_read_table(each) for each in table)

    async def run() -> ConnectedDatabase:
        async with open_memory(tenant) as caller:
            return await registry.add_database(*caller, name, dsn, tables=tables, description=description)

    _show(asyncio.run(run()), as_json=as_json)


@database_commands.command("list")
def list_all(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List the connected databases."""

    async def run() -> list[ConnectedDatabase]:
        async with open_memory(tenant) as caller:
            return await registry.list_databases(*caller)

    found = asyncio.run(run())
    if as_json:
        print_json([_visible(each) for each in found])
        return
    rows = [{**_visible(each), "tables": ", ".join(each.tables), "warnings": len(each.warnings)} for each in found]
    print_table(rows, empty="no database is connected; add one with `recordari database add`")


@database_commands.command()
def refresh(name: Name, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Look at the tables of a database again."""

    async def run() -> ConnectedDatabase:
        async with open_memory(tenant) as caller:
            return await registry.refresh_database(*caller, (await _named(caller, name)).database_id)

    _show(asyncio.run(run()), as_json=as_json)


@database_commands.command()
def remove(name: Name, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False) -> None:
    """Forget a database and the way in."""
    confirm(f"Remove the database {name}? Its DSN is forgotten.", yes=yes)

    async def run() -> None:
        async with open_memory(tenant) as caller:
            await registry.remove_database(*caller, (await _named(caller, name)).database_id)

    asyncio.run(run())
    print_note(f"{name} is removed")


@database_commands.command()
def ask(
    question: Annotated[str | None, typer.Argument(help="A question; needs a language model.")] = None,
    *,
    sql: Annotated[str | None, typer.Option(help="A SELECT instead of a question.")] = None,
    database: Annotated[str | None, typer.Option(help="Name of the database, where there are several.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Ask a database; always read-only."""

    async def run() -> DataAnswer:
        async with open_memory(tenant) as caller:
            return await ask_verbs.query_data(*caller, question, sql=sql, database=database)

    answer = asyncio.run(run())
    if as_json:
        print_json(answer)
        return
    names = [
        f"{name} ({place})" if name in answer.columns[:place] else name for place, name in enumerate(answer.columns)
    ]
    print_table([dict(zip(names, row, strict=True)) for row in answer.rows], empty="no rows")
    print_note(f"{len(answer.rows)} rows{' and more' if answer.truncated else ''}; {answer.sql}")


def _read_table(text: str) -> tuple[str, list[str] | None]:
    name, found, columns = text.partition("(")
    if not found:
        return name.strip(), None
    return name.strip(), [column.strip() for column in columns.removesuffix(")").split(",")]


async def _named(caller: Caller, name: str) -> ConnectedDatabase:
    for database in await registry.list_databases(*caller):
        if database.name == name:
            return database
    raise NotFound(f"there is no database {name!r}; `recordari database list` shows which there are")


def _visible(database: ConnectedDatabase) -> dict[str, object]:
    return record(database, without=("schema",))


def _show(database: ConnectedDatabase, *, as_json: bool) -> None:
    if as_json:
        print_json(record(database))
        return
    print_record({**_visible(database), "tables": ", ".join(database.tables), "warnings": len(database.warnings)})
    for warning in database.warnings:
        print_line(f"warning: {warning}")
