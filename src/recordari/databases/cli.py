"""`recordari database`: connect databases and ask them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from recordari.databases import ask as ask_verbs
from recordari.databases import registry
from recordari.databases.rules.databases import ConnectedDatabase
from recordari.errors import NotFound
from recordari.kit import commands
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, Yes
from recordari.kit.output import Answer, Commands, Hint, Record, Table, confirm, record
from recordari.kit.verbs import Caller

database_commands = Commands()

Name = Annotated[str, typer.Argument(help="Name of the database.")]


@database_commands.command()
def add(
    name: Name,
    *,
    table: Annotated[
        list[str],
        typer.Option("--table", help="A table that may be read: `orders`, `sales.orders`, or `orders(id,total)`."),
    ],
    description: Annotated[str, typer.Option(help="What it contains; agents choose by it.")] = "",
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Connect a database; its DSN is read from standard input, or from a prompt."""
    # Not an argument: every process of the machine sees those, and the shell saves them.
    dsn = typer.prompt("DSN", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline().strip()
    tables = dict(_read_table(each) for each in table)
    database = commands.ask(
        lambda caller: registry.add_database(*caller, name, dsn, tables=tables, description=description), tenant
    )
    return _database(database)


@database_commands.command("list")
def list_all(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """List the connected databases."""
    databases = commands.ask(lambda caller: registry.list_databases(*caller), tenant)
    return Answer(
        [record(database, without=("schema",)) for database in databases],
        Table(
            [_row(database) for database in databases],
            empty="no database is connected; add one with `recordari database add`",
        ),
    )


@database_commands.command()
def refresh(name: Name, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Describe the tables of a database again."""

    async def run(caller: Caller) -> ConnectedDatabase:
        return await registry.refresh_database(*caller, (await _named(caller, name)).database_id)

    return _database(commands.ask(run, tenant))


@database_commands.command()
def remove(name: Name, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False) -> Answer:
    """Disconnect a database and delete its DSN."""
    confirm(f"Remove the database {name}? Its DSN is deleted.", yes=yes)

    async def run(caller: Caller) -> None:
        await registry.remove_database(*caller, (await _named(caller, name)).database_id)

    commands.ask(run, tenant)
    return Answer({"name": name, "done": "removed"}, Hint(f"{name} is removed"))


@database_commands.command()
def ask(
    question: Annotated[str | None, typer.Argument(help="A question; needs a language model.")] = None,
    *,
    sql: Annotated[str | None, typer.Option(help="A SELECT instead of a question.")] = None,
    database: Annotated[str | None, typer.Option(help="Name of the database, where there are several.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Ask a database; always read-only."""
    answer = commands.ask(lambda caller: ask_verbs.query_data(*caller, question, sql=sql, database=database), tenant)
    names = [
        f"{name} ({number})" if name in answer.columns[:number] else name for number, name in enumerate(answer.columns)
    ]
    return Answer(
        answer,
        Table([dict(zip(names, row, strict=True)) for row in answer.rows], empty="no rows"),
        Hint(f"{len(answer.rows)} rows{' and more' if answer.truncated else ''}; {answer.sql}"),
    )


def _read_table(text: str) -> tuple[str, list[str] | None]:
    name, bracket, columns = text.partition("(")
    if not bracket:
        return name.strip(), None
    return name.strip(), [column.strip() for column in columns.removesuffix(")").split(",")]


async def _named(caller: Caller, name: str) -> ConnectedDatabase:
    for database in await registry.list_databases(*caller):
        if database.name == name:
            return database
    raise NotFound(f"there is no database {name!r}; `recordari database list` shows which there are")


def _row(database: ConnectedDatabase) -> dict[str, object]:
    tables, warnings = ", ".join(database.tables), len(database.warnings)
    return {**record(database, without=("schema",)), "tables": tables, "warnings": warnings}


def _database(database: ConnectedDatabase) -> Answer:
    return Answer(database, Record(_row(database)), *(f"warning: {warning}" for warning in database.warnings))
