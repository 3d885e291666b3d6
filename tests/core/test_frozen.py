"""Frozen dataclasses that are filled quickly behave as those that Python makes."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from recordari.core.frozen import quickly_made


@quickly_made
@dataclass(frozen=True, slots=True)
class Named:
    name: str
    tags: list[str] = field(default_factory=list, kw_only=True)
    size: int = field(default=3, kw_only=True)


@quickly_made
@dataclass(frozen=True, kw_only=True)
class Checked:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("too small")


def test_an_instance_has_its_fields_and_defaults() -> None:
    one, other = Named("a"), Named("a", tags=["x"], size=4)
    assert (one.name, one.tags, one.size) == ("a", [], 3)
    assert (other.tags, other.size) == (["x"], 4)
    assert one == Named("a") and one != other and type(one) is Named
    assert Named("a").tags is not one.tags


def test_an_instance_stays_as_it_is() -> None:
    one = Named("a")
    with pytest.raises(FrozenInstanceError):
        one.name = "b"  # type: ignore[misc]
    assert replace(one, size=5) == Named("a", size=5)
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one  # our own


def test_arguments_are_those_of_the_class() -> None:
    assert list(inspect.signature(Named).parameters) == ["name", "tags", "size"]
    with pytest.raises(TypeError, match="name"):
        Named()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="too small"):
        Checked(size=-1)
    assert Checked(size=1).size == 1
