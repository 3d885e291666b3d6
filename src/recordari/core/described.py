"""Settings of dataclasses that routes return: their attribute docstrings become descriptions in OpenAPI.

Pydantic can read the docstrings itself, but does so for each class when a program starts, which took a quarter of the
server's start. Here they are read when a schema is written.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, Final

from pydantic import ConfigDict, Field


def describe(schema: dict[str, Any], described: type) -> None:
    """Write the docstrings of a class into its schema; for `json_schema_extra`."""
    docstrings = _docstrings(described.__module__).get(described.__qualname__, {})
    for name, field in schema.get("properties", {}).items():
        if name in docstrings:
            field.setdefault("description", docstrings[name])


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """For each class of a module the docstrings of its attributes; none where a module has no source."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:
        return {}
    return dict(_of_classes(ast.parse(source).body, ""))


def _of_classes(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield prefix + statement.name, dict(_of_attributes(statement.body))
            yield from _of_classes(statement.body, f"{prefix}{statement.name}.")


def _of_attributes(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for attribute, after in pairwise(body):
        match attribute, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


DESCRIBED: Final = ConfigDict(json_schema_extra=describe, json_schema_serialization_defaults_required=True)

LEFT_OUT_IF_EMPTY: Final[Any] = Field(exclude_if=lambda value: not value)
"""For a field that most answers do not have."""
