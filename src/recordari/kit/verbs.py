"""Binding of verbs: a function of (resources, identity, …) becomes a method of `Memory`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar, cast, get_type_hints

from recordari.core.checks import TypeCheck, check_type, type_checks
from recordari.core.identity import Identity
from recordari.errors import NotFound
from recordari.kit.resources import Resources

P = ParamSpec("P")
R = TypeVar("R")


def existing(row: R | None, noun: str) -> R:
    """Return a row that a verb needs; `NotFound` if there is none."""
    if row is None:
        raise NotFound(f"there is no such {noun}")
    return row


class Caller(NamedTuple):
    """The first two arguments of every verb: `await pin_item(*caller, item_id)`."""

    resources: Resources
    identity: Identity

    def bound(self, identity: Identity) -> Caller:
        return Caller(self.resources, identity)


class Bound:
    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity

    @property
    def caller(self) -> Caller:
        return Caller(self.resources, self.identity)


def verb(function: Callable[Concatenate[Resources, Identity, P], R]) -> Callable[Concatenate[Bound, P], R]:
    """Return the function as a method: the resources and the identity come from the object.

    Arguments of plain types are checked; a wrong one raises `InvalidInput` with the name of the field.
    """
    _, _, *parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters]

    @functools.cache
    def checks() -> dict[str, TypeCheck]:
        return type_checks(get_type_hints(function))

    @functools.wraps(function)
    def method(self: Bound, *arguments: P.args, **named: P.kwargs) -> R:
        for name, value in (*zip(names, arguments, strict=False), *named.items()):
            if name in checks():
                check_type(name, value, checks()[name])
        return function(self.resources, self.identity, *arguments, **named)

    first = parameters[0].kind if parameters else inspect.Parameter.KEYWORD_ONLY
    own = inspect.Parameter("self", min(first, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    method.__signature__ = inspect.signature(function).replace(parameters=[own, *parameters])  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[Bound, P], R]", method)
