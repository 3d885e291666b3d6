"""Every storage function, called with another tenant's arguments: the right SQL and the wrong identity give nothing.

Each function that takes a `Transaction` is called with arguments that name the strangers' rows: as the strangers, to see
that there is something to find; as ourselves; and with the strangers' own filter in every query on a connection that
is ours, so that row-level security alone stands in between. A new storage function is found and furnished by itself:
arguments are made from their types, and from the strangers' rows where a name is that of a column.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import types
import typing
from collections import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from psycopg.rows import dict_row
from tests.stored import filtered_by
from tests.working import run_job, work_off

import recordari
from recordari.app import Memory
from recordari.core.identity import Identity, Role, Scope
from recordari.core.items import Kind
from recordari.recall.storage import Search, Visibility
from recordari.sessions.rules.runs import NewToolCall
from recordari.sessions.rules.state import OwnerKind
from recordari.sessions.rules.window import NewMessage
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition
from recordari.tenants.usage import Usages

CANARY = "zanzibar"
NOW = datetime.now(UTC)
QUEUE = {"db.outbox", "db.jobs"}
"""They keep ids of work and no content, in a schema without row-level security; the tenant filter is their wall."""
OPERATORS = {
    "db.address.bring_up_to_date",
    "db.address.check_ready",
    "db.backup.count_rows",
    "db.backup.find_reader",
    "db.backup.has_schema",
    "db.backup.list_as_owner",
    "db.cluster.complete_migration",
    "db.cluster.distribute",
    "db.cluster.prepare_backup",
    "db.cluster.refuse_divided",
    "db.cluster.shape_for_one_server",
    "db.cluster.state",
    "db.cluster.undistribute",
    "db.delegation.make",
    "db.delegation.missing",
    "db.delegation.remove",
    "operations.storage.describe_server",
    "db.migrate.division",
    "db.migrate.ensure_database",
    "db.migrate.request_checkpoint",
    "db.migrate.pending",
    "db.migrate.prepare",
    "db.outbox.backlog",
    "db.outbox.listen",
    "db.pool.functions_of_nodes",
    "db.pool.is_behind_pooler",
    "db.pool.refuse_pooler",
    "sharing.storage.list_members",
    "tenants.storage.list_tenants",
}
"""What an operator runs as the owner of the database, or what sees no row; no door of a tenant reaches these."""
CARRIERS = {"db.pipeline.answers_of", "db.pipeline.roll_back"}
"""What carries statements over a connection that `Database` has bound."""

WITHOUT_ROWS = {
    "memory.storage.line_of",
    "memory.storage.ask_line",
    "sessions.storage.list_spans",
    "tenants.storage.has_language",
}
"""Their answer is no row of a tenant, so that it may be the same for two: a catalogue entry, the id asked for, empty lists."""

BUILTINS: dict[Any, type] = {"bytes": bytes, "int": int}

Function = Callable[..., Awaitable[Any]]


def _storage_functions() -> dict[str, Callable[..., Any]]:
    """The public functions of `db` and of every room's storage, as `memory.storage.insert_items`."""
    functions: dict[str, Function] = {}
    for module in pkgutil.walk_packages(recordari.__path__, "recordari."):
        if not module.name.startswith("recordari.db.") and not module.name.endswith("storage"):
            continue
        for name, function in vars(importlib.import_module(module.name)).items():
            if inspect.isfunction(function) and function.__module__ == module.name and not name.startswith("_"):
                functions[f"{module.name.removeprefix('recordari.')}.{name}"] = function
    return functions


def _first(function: Function) -> str:
    return str(next(iter(inspect.signature(function).parameters.values())).annotation)


STORAGE = _storage_functions()
FUNCTIONS = {name: function for name, function in STORAGE.items() if inspect.iscoroutinefunction(function)}
BOUND = {name: function for name, function in FUNCTIONS.items() if _first(function) == "Transaction"}
ASKED = {name: function for name, function in STORAGE.items() if name.rpartition(".")[2].startswith("ask_")}
"""Functions that only say what is to be asked; `Database.read_batch` binds it to an identity."""
AT_ONCE = {name: function for name, function in FUNCTIONS.items() if _first(function) == "Database"}
"""Functions that send their whole transaction as one message; they take the identity that it is bound to."""


def test_every_storage_function_takes_a_bound_transaction_or_is_an_operators() -> None:
    bound = {"Transaction", "QueueTransaction"}
    unbound = {name for name, function in FUNCTIONS.items() if _first(function) not in bound}
    assert unbound == OPERATORS | CARRIERS | AT_ONCE.keys()
    for name in AT_ONCE.keys() - OPERATORS:
        assert {Identity, Visibility} & set(typing.get_type_hints(FUNCTIONS[name]).values()), name


@dataclass(frozen=True, slots=True)
class Arguments:
    """Makes arguments of any type that name the strangers' rows."""

    known: Mapping[str, Sequence[Any]]
    """Values by name of a column, those of the rows the strangers have."""
    caller: Identity

    def of(self, function: Function) -> dict[str, Any]:
        """What to call the function with, after its transaction."""
        hints = typing.get_type_hints(function)
        return {name: self.made(name, hints[name]) for name in list(inspect.signature(function).parameters)[1:]}

    def made(self, name: str, kind: Any) -> Any:
        """A value of this type under this name."""
        if name == "also":
            return ()  # further queries, each with an identity of its own; `ASKED` has them
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if isinstance(kind, typing.NewType):
            return self.made(name, kind.__supertype__)
        if kind is Identity:
            return self.caller
        if kind is Search:
            return self._search()
        if is_dataclass(kind):
            return self._object(kind)
        if origin in {types.UnionType, typing.Union}:
            return self.made(name, inner[0])
        if origin in {abc.Mapping, dict} or kind in {dict, Mapping}:
            return {}
        if origin is abc.Callable:
            answer = self.made(name, inner[-1])
            return lambda *_: answer
        if origin is tuple and inner[-1] is not Ellipsis:
            return tuple(self.made(name, one) for one in inner)
        if origin in {abc.Sequence, list, tuple, set, frozenset, abc.Iterable}:
            values = self._several(name, inner[0])
            return values if origin in {abc.Sequence, list, abc.Iterable} else origin(values)
        return self._scalar(name, kind)

    def _several(self, name: str, kind: Any) -> list[Any]:
        column = {"refs": "item_id", "episodes": "item_id"}.get(name, name.removesuffix("s"))
        if column in self.known and not is_dataclass(kind):
            return list(self.known[column])
        return [self.made(column, kind)]

    def _object(self, kind: Any) -> Any:
        hints = typing.get_type_hints(kind)
        values = {}
        for field in fields(kind):
            optional = field.default is not MISSING or field.default_factory is not MISSING
            if field.init and (not optional or field.name.endswith("_id")):
                # A field named as a builtin type hides that type from the annotations of its class.
                hidden = isinstance(hints[field.name], types.MemberDescriptorType)
                values[field.name] = self.made(field.name, BUILTINS[field.type] if hidden else hints[field.name])
        return kind(**values)

    def _search(self) -> Search:
        return Search(
            terms={CANARY: 1.0},
            vector=np.ones(256, dtype=np.float32),
            model_id=self.known["model_id"][0],
            entity_keys=[CANARY],
            interval=None,
            kinds=[str(kind) for kind in Kind],
            scopes=frozenset(Scope),
        )

    def _scalar(self, name: str, kind: Any) -> Any:
        column = {"owner_id": "session_id", "source_item_id": "item_id", "from_id": "item_id"}.get(name, name)
        known = self.known.get(column, ())
        if isinstance(kind, type) and issubclass(kind, Enum):
            return OwnerKind.SESSION if kind is OwnerKind else next(iter(kind))
        if name in {"first", "start", "now"}:
            return NOW if name == "now" else 0
        if known and (kind is Any or isinstance(known[0], kind)):
            return known[0]
        if "after" in name or "since" in name:
            first = datetime(2000, 1, 1, tzinfo=UTC)
            return {datetime: first, date: first.date(), UUID: UUID(int=0), bytes: b"", str: "", int: 0}[kind]
        if name == "before" and kind is UUID:
            return UUID(int=2**128 - 1)
        ready: dict[Any, Any] = {
            str: CANARY,
            int: 100,
            float: 1.0,
            bool: True,
            bytes: b"0" * 32,
            UUID: uuid4(),
            datetime: NOW + timedelta(days=400),
            date: (NOW + timedelta(days=400)).date(),
            timedelta: timedelta(0),
            Decimal: Decimal(1),
            np.ndarray: np.ones((1, 256), dtype=np.float32),
            Any: CANARY,
            object: CANARY,
        }
        return ready[kind]


@pytest.fixture
async def strangers(memory: Memory) -> Memory:
    """Another tenant with rows of every kind, each with the canary where it has a text."""
    tenant = await tenants.ensure_tenant(memory.resources, "strangers")
    theirs = memory.bound(Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))
    await theirs.save_user("their-user", display_name=CANARY)
    await theirs.save_agent("their-agent", AgentDefinition(core=CANARY))
    await theirs.create_key(CANARY)
    working = theirs.acting_as(user="their-user", agent="their-agent", session="their-session")
    await working.remember(f"{CANARY} report. " * 2000, kind="tool_output", session_id="their-session")
    said = [NewMessage(content=f"{CANARY} {number}: I live in Kendwa.") for number in range(7)]
    await working.add_messages(said, session_id="their-session")
    await working.add_note("their-session", f"{CANARY} note")
    await working.set_state("draft", {"text": CANARY})
    await working.set_state("plan", {"text": CANARY})
    await working.start_run(run_id="their-run", input={"goal": CANARY})
    await working.record_tool_calls("their-run", [NewToolCall(name="look", arguments="{}", result=CANARY, number=1)])
    await working.append_episode(f"{CANARY} episode")
    old = await working.remember_fact(f"The {CANARY} ferry leaves at nine.", scope="user")
    new = await working.edit_item(old.id, f"The {CANARY} ferry leaves at ten.")
    await theirs.forget((await working.remember_fact(f"{CANARY} was forgotten", scope="user")).id)
    await theirs.give_feedback(new.id, "useful")
    await theirs.hold(new.id, "their-action")
    await theirs.save_workflow(CANARY, {"text": CANARY}, agent_type="support", task_type="reply")
    choice = await working.choose("support", "reply", seed=1)
    await working.reward(choice.choice_id, 1.0, outcome_id="their-outcome")
    await theirs.make_daily_brief()
    await theirs.remember(f"{CANARY} opens at eight", kind="fact", scope="tenant")
    await theirs.save_question(CANARY, f"What about the {CANARY} ferry?", agent="their-agent")
    await work_off(theirs)
    await working.standing_answer(CANARY)
    await run_job(theirs, "review_memory")
    await theirs.enqueue_job("retain")
    await working.remember(f"{CANARY} waits for the worker", kind="chat_message")
    await theirs.resources.get(Usages).flush()
    return theirs


async def _rows_of(memory: Memory) -> dict[str, list[dict[str, Any]]]:
    """Every row of the tenant in every table, read as the owner of the database."""
    owner = memory.resources.settings.database_owner_url
    assert owner is not None
    tables = """SELECT n.nspname || '.' || c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
        WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relkind IN ('r', 'p') ORDER BY 1"""
    async with await psycopg.AsyncConnection.connect(owner.get_secret_value(), row_factory=dict_row) as connection:
        found = {}
        for row in await (await connection.execute(tables)).fetchall():
            statement = f"SELECT * FROM {row['name']} WHERE tenant_id = %s ORDER BY 1, 2"
            found[row["name"]] = await (await connection.execute(statement, [memory.identity.tenant_id])).fetchall()
    return found


def _known(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[Any]]:
    """The values of each column, those of items with most around them first."""
    known: dict[str, list[Any]] = {}
    for table in sorted(rows, key=lambda name: (name != "recordari.holds", name != "recordari.items", name)):
        for row in rows[table]:
            for column, value in row.items():
                if isinstance(value, UUID | str) and column not in {"tenant_id", "settings"}:
                    known.setdefault(column, []).append(value)
    return {column: list(dict.fromkeys(values)) for column, values in known.items()}


class _Undone(Exception):
    """Takes a transaction back."""


async def _answer(identity: Identity, filter_by: Identity, memory: Memory, function: Function, given: Any) -> Any:
    """What the function says on a connection of one identity with queries for another; nothing of it is kept."""
    answer: Any = None
    with suppress(_Undone):
        async with memory.resources.database.transaction(identity) as tx:
            answer = await function(filtered_by(tx, filter_by), **given)
            raise _Undone
    return answer


def _foreign(answer: Any, given: Any, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """What of the strangers stands in the answer and was not in the question."""
    shown, asked = repr(answer), repr(given)
    ids = {str(value) for table in rows.values() for row in table for value in row.values() if isinstance(value, UUID)}
    asked_words = set(re.findall(r"[0-9a-f-]{36}|their-[a-z]+|zanzibar", asked))
    return sorted(word for word in (ids | {CANARY}) if word in shown and word not in asked_words)


async def test_no_storage_function_reaches_another_tenants_rows(memory: Memory, strangers: Memory) -> None:
    rows = await _rows_of(strangers)
    ours, theirs = memory.identity, strangers.identity
    arguments = Arguments(_known(rows), ours)
    shown_to_them, leaks = set(), {}
    for name, function in BOUND.items():
        given = arguments.of(function)
        insiders = None
        with suppress(Exception):
            insiders = await _answer(theirs, theirs, memory, function, given)
        if insiders:
            shown_to_them.add(name)
        for wall, filter_by in (("filter", ours), ("row-level security", theirs)):
            if wall == "row-level security" and name.rpartition(".")[0] in QUEUE:
                continue
            with suppress(Exception):  # refused, or no row where one is taken for granted: nothing was shown
                answer = await _answer(ours, filter_by, memory, function, given)
                if seen := _foreign(answer, given, rows):
                    leaks[name, wall] = seen
                elif wall != "filter" and insiders and repr(answer) == repr(insiders) and name not in WITHOUT_ROWS:
                    leaks[name, wall] = ["the answer the strangers get"]
    assert not leaks
    assert len(shown_to_them) > 100, f"the strangers must find what they have, or this shows nothing: {shown_to_them}"


async def test_nothing_sent_at_once_reaches_another_tenants_rows(memory: Memory, strangers: Memory) -> None:
    before = await _rows_of(strangers)
    assert before["recordari.items"] and len(AT_ONCE.keys() - OPERATORS) > 5
    for name in AT_ONCE.keys() - OPERATORS:
        given = Arguments(_known(before), memory.identity).of(FUNCTIONS[name])
        answer = None
        with suppress(Exception):  # refused
            answer = await FUNCTIONS[name](memory.resources.database, **given)
        assert not _foreign(answer, given, before), name
        assert await _rows_of(strangers) == before, name


async def test_nothing_asked_together_reaches_another_tenants_rows(memory: Memory, strangers: Memory) -> None:
    rows = await _rows_of(strangers)
    arguments = Arguments(_known(rows), strangers.identity.narrowed(session_id="their-session"))
    shown_to_them = set()
    for name, function in ASKED.items():
        hints = typing.get_type_hints(function)
        given = {one: arguments.made(one, hints[one]) for one in inspect.signature(function).parameters}
        theirs, ours = function(**given), function(**given)
        await memory.resources.database.read_batch(strangers.identity, [theirs])
        await memory.resources.database.read_batch(memory.identity, [ours])
        shown_to_them |= {name} if _foreign(theirs.answer, given, rows) else set()
        assert name in WITHOUT_ROWS or not _foreign(ours.answer, given, rows), name
        async with memory.resources.database.transaction(memory.identity) as tx:
            behind_the_wall = await filtered_by(tx, strangers.identity).dicts(ours.query, **ours.parameters({}))
        assert name.rpartition(".")[0] in QUEUE or not _foreign(behind_the_wall, given, rows), name
    assert len(shown_to_them) > 5, f"the strangers must find what they have, or this shows nothing: {shown_to_them}"


@pytest.mark.parametrize("wall", ["filter", "row-level security"])
async def test_no_storage_function_changes_another_tenants_rows(wall: str, memory: Memory, strangers: Memory) -> None:
    before = await _rows_of(strangers)
    arguments = Arguments(_known(before), memory.identity)
    filter_by = memory.identity if wall == "filter" else strangers.identity
    watched = [table for table in before if wall == "filter" or not table.startswith("recordari_queue.")]
    ran = 0
    for name, function in BOUND.items():
        try:
            async with memory.resources.database.transaction(memory.identity) as tx:
                await function(filtered_by(tx, filter_by), **arguments.of(function))
        except Exception:
            continue  # refused
        ran += 1
        after = await _rows_of(strangers)
        assert [after[table] for table in watched] == [before[table] for table in watched], name
    assert ran > 100, f"only {ran} of {len(BOUND)} did anything at all"
