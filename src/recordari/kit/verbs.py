"""How a verb is bound to who asks: a function of (resources, identity, …) becomes a method of `Memory`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar, cast, get_type_hints

from recordari.core.checks import TypeCheck, check_type, type_checks
from recordari.core.identity import Identity
from recordari.kit.resources import Resources

P = ParamSpec("P")
R = TypeVar("R")


class Caller(NamedTuple):
    """What every verb takes first: `await pin_item(*caller, item_id)`."""

    resources: Resources
    identity: Identity

    def bound(self, identity: Identity) -> Caller:
        """The same resources for another identity."""
        return Caller(self.resources, identity)


class Bound:
    """Resources bound to one identity."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity

    @property
    def caller(self) -> Caller:
        """Both, in the order in which verbs take them."""
        return Caller(self.resources, self.identity)


def verb(function: Callable[Concatenate[Resources, Identity, P], R]) -> Callable[Concatenate[Bound, P], R]:
    """The function as a method: the resources and the identity come from the object it is called on.

    An argument of a plain type is checked, so that a wrong one is `InvalidInput` with the name of the field.
    """
    _, _, *taken = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in taken]

    @functools.cache
    def checks() -> dict[str, TypeCheck]:
        return type_checks(get_type_hints(function))

    @functools.wraps(function)
    def method(self: Bound, *arguments: P.args, **named: P.kwargs) -> R:
        known = checks()
        for name, value in (*zip(names, arguments, strict=False), *named.items()):
            if name in known:
                check_type(name, value, known[name])
        return function(self.resources, self.identity, *arguments, **named)

    first = taken[0].kind if taken else inspect.Parameter.KEYWORD_ONLY
    own = inspect.Parameter("self", min(first, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    method.__signature__ = inspect.signature(function).replace(parameters=[own, *taken])  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[Bound, P], R]", method)
