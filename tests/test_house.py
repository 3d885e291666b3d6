"""The rules of the house: how the source is divided and what is said once only. Imports between rooms: pyproject.toml."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import typing
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

import recordari
from recordari.config import Settings
from recordari.core.items import Item, Kind

SOURCE = Path(recordari.__file__).parent
TREES = {
    ".".join(("recordari", *path.relative_to(SOURCE).with_suffix("").parts)): ast.parse(path.read_text("utf-8"))
    for path in sorted(SOURCE.rglob("*.py"))
}
"""Every module by its name, a package as `room.__init__`."""
DRIVERS = {"psycopg", "psycopg_pool", "pgvector"}
ITEMS = "recordari.core.items"

SMALL_MODULE = 60  # lines: below it a module with one importer belongs into that importer
LONG_MODULE = 500  # lines
LONG_FUNCTION = 60  # lines
MOST_MODULES = 356
MOST_SETTINGS = 70
MOST_IN_A_FOLDER = 20
COLUMNS_IN_A_ROW = 8


def path_of(module: str) -> Path:
    return SOURCE.parent.joinpath(*module.split(".")).with_suffix(".py")


def lines_of(module: str) -> int:
    return len(path_of(module).read_text("utf-8").splitlines())


def imports_of(module: str) -> set[str]:
    """The names of the modules that a module imports anywhere, ours and others."""
    found: set[str] = set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: write imports in full, from recordari…"
            origin = node.module or ""
            below = {f"{origin}.{alias.name}" for alias in node.names}
            found |= {one for one in below if one in TREES} or {origin}
            found |= {origin} if any(one not in TREES for one in below) else set()
    return found


def is_storage(module: str) -> bool:
    return module.startswith("recordari.") and module.endswith((".storage", "_storage"))


def is_door(module: str) -> bool:
    return module.startswith("recordari.doors.") or module.endswith((".rest", "_rest", ".cli", "_cli"))


def loaded(*, doors: bool) -> Iterator[ModuleType]:
    """Every module that can be imported without the frameworks of the adapters; or the doors among them."""
    for module in TREES:
        apart = module.startswith("recordari.integrations.") or module.endswith("__main__")
        if not apart and (is_door(module) or not doors):
            yield importlib.import_module(module.removesuffix(".__init__"))


def classes_of(module: ModuleType) -> Iterator[type]:
    for value in vars(module).values():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            yield value


def listed(violations: list[str]) -> str:
    return "".join(f"\n  {one}" for one in violations)


def test_what_is_checked_here_is_the_whole_source() -> None:
    assert {
        "recordari.core.items",
        "recordari.memory.storage",
        "recordari.memory.rest",
        "recordari.app",
    } <= TREES.keys()
    assert "recordari.memory.storage" in imports_of("recordari.memory.remember")
    assert any(is_door(module) for module in TREES) and any(is_storage(module) for module in TREES)


def test_routes_commands_and_doors_never_import_storage() -> None:
    violations = [
        f"{module} imports {one}"
        for module in filter(is_door, TREES)
        for one in sorted(imports_of(module))
        if is_storage(one)
    ]
    assert not violations, f"call a verb of the room instead of its storage (rule 2):{listed(violations)}"


def test_only_storage_knows_the_driver() -> None:
    """`databases` reads the databases of users in a child process, and is a driver's user too."""
    violations = [
        f"{module} imports {one}"
        for module in TREES
        if not (module.startswith(("recordari.db.", "recordari.databases.")) or is_storage(module)) or is_door(module)
        for one in sorted(imports_of(module))
        if one.partition(".")[0] in DRIVERS
    ]
    assert not violations, f"move what needs the driver into `db` or the room's storage.py:{listed(violations)}"


def test_no_public_class_name_is_given_twice() -> None:
    """`sync` gives the same classes to programs that do not wait, under the same names."""
    places = defaultdict(list)
    for module, tree in TREES.items():
        if module == "recordari.sync":
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    violations = [f"{name}: {', '.join(modules)}" for name, modules in sorted(places.items()) if len(modules) > 1]
    assert not violations, f"name each class after what it alone is, or keep one of them (rule 4):{listed(violations)}"


def test_no_small_module_has_a_single_importer() -> None:
    """A room keeps its SQL in a storage module, however little that is."""
    importers = Counter(one for module in TREES for one in imports_of(module))
    violations = [
        f"{module}: {lines_of(module)} lines"
        for module in TREES
        if lines_of(module) < SMALL_MODULE and importers[module] <= 1
        if not module.endswith(("__init__", "__main__")) and not is_storage(module)
    ]
    assert not violations, f"put it into the module that imports it (rule 5):{listed(violations)}"


def classes_in(annotation: Any) -> list[type]:
    """The classes that an annotation is made of."""
    inner = typing.get_args(annotation)
    return [one for part in inner for one in classes_in(part)] if inner else [annotation]


def repeats(model: type[BaseModel], shape: type) -> bool:
    """Whether a model has the fields of a dataclass, and so have the models in it of the dataclasses in that."""
    if model.model_fields.keys() != {field.name for field in dataclasses.fields(shape)}:
        return False
    hints = typing.get_type_hints(shape)
    for name, field in model.model_fields.items():
        inside = [one for one in classes_in(hints[name]) if dataclasses.is_dataclass(one)]
        for one in classes_in(field.annotation):
            is_model = inspect.isclass(one) and issubclass(one, BaseModel) and one is not model
            if is_model and not any(repeats(one, other) for other in inside):
                return False
    return True


def test_no_door_class_repeats_a_dataclass() -> None:
    """A class with one field is too little to tell a repetition from chance; one that takes a request checks it."""
    shapes = [one for module in loaded(doors=False) for one in classes_of(module) if dataclasses.is_dataclass(one)]
    shown = [
        one
        for module in loaded(doors=True)
        for one in classes_of(module)
        if issubclass(one, BaseModel) and len(one.model_fields) > 1 and one.model_config.get("extra") != "forbid"
    ]
    violations = [
        f"{one.__module__}.{one.__name__} has the fields of {shape.__name__}"
        for one in shown
        for shape in shapes
        if repeats(one, shape)
    ]
    assert shapes and shown, "they must be seen, or this shows nothing"
    assert not violations, f"answer with the dataclass itself (rule 6):{listed(violations)}"


def kinds_in(node: ast.AST) -> set[str]:
    """The kinds that a table or a `match` makes a difference between."""
    if isinstance(node, ast.Dict):
        keys = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.Match):
        patterns = [pattern for case in node.cases for pattern in ast.walk(case.pattern)]
        keys = [pattern.value for pattern in patterns if isinstance(pattern, ast.MatchValue)]
    else:
        return set()
    return {key.attr for key in keys if isinstance(key, ast.Attribute) and ast.unparse(key.value) == "Kind"}


def test_what_differs_from_kind_to_kind_is_in_one_table() -> None:
    violations = [
        f"{module}:{getattr(node, 'lineno', 0)} tells {', '.join(sorted(kinds))} apart"
        for module, tree in TREES.items()
        if module != ITEMS
        for node in ast.walk(tree)
        if len(kinds := kinds_in(node)) > 1
    ]
    assert not violations, f"make it a field of KindRule in core/items.py (rule 8):{listed(violations)}"
    assert any(len(kinds_in(node)) == len(Kind) for node in ast.walk(TREES[ITEMS])), "the table itself must be seen"


COLUMNS = "|".join(sorted((field.name for field in dataclasses.fields(Item)), key=len, reverse=True))
ONE_COLUMN = rf"""["']?(?:\w+\.)?(?:{COLUMNS})\b["']?(?:\s+AS\s+\w+)?"""
IN_A_ROW = re.compile(rf"(?:\b|['\"]){ONE_COLUMN}(?:\s*,\s*{ONE_COLUMN}){{{COLUMNS_IN_A_ROW},}}", re.IGNORECASE)


def test_the_columns_of_an_item_are_listed_once() -> None:
    sources = [path_of(module) for module in TREES if module != ITEMS]
    sources += [path for path in SOURCE.rglob("*.sql") if path.parent.name != "migrations"]
    violations = []
    for path in sorted(sources):
        text = re.sub(r"--.*", "", path.read_text("utf-8"))  # a comment between two columns parts no list
        for match in IN_A_ROW.finditer(text):
            place = f"{path.relative_to(SOURCE)}:{text[: match.start()].count(chr(10)) + 1}"
            violations.append(f"{place} {' '.join(match.group().split())[:60]}…")
    assert not violations, f"use the columns of core/items.py (rule 9):{listed(violations)}"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT i.item_id, i.kind, i.scope, i.tier,\n  i.user_id, agent_id, session_id AS s, run_id, source_ref FROM items i",
        '("item_id", "kind", "scope", "tier", "user_id", "agent_id", "session_id", "run_id", "source_ref")',
    ],
)
def test_a_list_of_columns_is_known_by_its_look(text: str) -> None:
    assert IN_A_ROW.search(text)
    assert not IN_A_ROW.search(text.replace("tier", "tear"))


def test_no_function_is_long() -> None:
    violations = [
        f"{module}.{node.name}: {length} lines"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > LONG_FUNCTION
    ]
    assert not violations, f"take a step out and give it a name:{listed(violations)}"


def test_no_module_is_long() -> None:
    violations = [f"{module}: {lines_of(module)} lines" for module in TREES if lines_of(module) > LONG_MODULE]
    assert not violations, f"find the second thing that it is about:{listed(violations)}"


def test_no_folder_is_crowded() -> None:
    folders = Counter(module.rpartition(".")[0] for module in TREES if not module.endswith("__init__"))
    violations = [f"{folder}: {number} modules" for folder, number in folders.items() if number > MOST_IN_A_FOLDER]
    assert not violations, f"merge modules, or give a capability a room of its own:{listed(violations)}"


def test_the_house_stays_small() -> None:
    assert len(TREES) <= MOST_MODULES, f"{len(TREES)} modules: merge before you add"


def test_the_settings_stay_few() -> None:
    number = len(Settings.model_fields)
    assert number <= MOST_SETTINGS, f"{number} settings: make what no operator turns a constant"
