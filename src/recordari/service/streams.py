"""What comes one by one, whether it is at hand or still arrives."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def each(values: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """Every value in order."""
    if isinstance(values, AsyncIterable):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value
