"""Frozen dataclasses that are made by the hundred for one answer.

The initialiser of a frozen dataclass sets each field by a call, which takes five times as long as an assignment.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quickly_made(cls: type[T]) -> type[T]:
    """A frozen dataclass with another initialiser: the instance is filled as one of an open twin, and then becomes frozen."""
    twin = type(cls.__name__, (), {"__slots__": cls.__dict__["__slots__"]} if "__slots__" in cls.__dict__ else {})
    known: dict[str, Any] = {"_twin": twin, "_frozen": cls, "_become": object.__setattr__, "_absent": object()}
    positional, named, lines = ["self"], list[str](), ["_become(self, '__class__', _twin)"]
    for one in fields(cls):  # type: ignore[arg-type]
        parameter, value = one.name, one.name
        if one.default is not MISSING:
            known[f"_default_{one.name}"] = one.default
            parameter += f"=_default_{one.name}"
        elif one.default_factory is not MISSING:
            known[f"_make_{one.name}"] = one.default_factory
            parameter += "=_absent"
            value = f"_make_{one.name}() if {one.name} is _absent else {one.name}"
        (named if one.kw_only else positional).append(parameter)
        lines.append(f"self.{one.name} = {value}")
    lines.append("self.__class__ = _frozen")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*"] if named else []), *named])
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines), known)  # noqa: S102  # as the standard library makes it
    made, usual = known["__init__"], cls.__init__
    made.__qualname__, made.__annotations__ = usual.__qualname__, usual.__annotations__
    cls.__init__ = made  # type: ignore[method-assign]
    return cls
