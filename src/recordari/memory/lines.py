"""An import's lines: JSON text becomes items, and every error names its line."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator

from pydantic import ValidationError

from recordari.core.checks import MAX_DEPTH, check_json
from recordari.core.items import NewItem
from recordari.errors import InvalidInput, RecordariError, TooLarge
from recordari.kit.problems import field_errors
from recordari.memory.bodies import ImportedItem, ImportSummary
from recordari.memory.remember import IMPORT_BATCH, Remembered


class Lines:
    """Reads items off lines and remembers which line each stood on.

    A line that cannot be read ends the reading: what stands before it is imported, then `finish` raises.
    """

    def __init__(self) -> None:
        self._number = 0
        self._items = 0
        # An item that is refused is one of the last batch.
        self._numbers: deque[int] = deque(maxlen=IMPORT_BATCH)
        self._bad: RecordariError | None = None

    def read(self, lines: Iterable[bytes]) -> Iterator[NewItem]:
        """The items of lines at hand."""
        for line in lines:
            if self._bad is not None:
                return
            if (new := self._item(line)) is not None:
                yield new

    async def read_stream(self, chunks: AsyncIterable[bytes], *, max_bytes: int) -> AsyncGenerator[NewItem, None]:
        """The items of lines that arrive in pieces; a line may have `max_bytes`."""
        rest = bytearray()
        async for chunk in chunks:
            rest += chunk
            end = rest.rfind(b"\n", len(rest) - len(chunk))
            if end >= 0:
                for new in self.read(bytes(rest[:end]).split(b"\n")):
                    yield new
                del rest[: end + 1]
            if len(rest) > max_bytes and self._bad is None:
                self._number += 1
                self._refuse(TooLarge(f"a line may have at most {max_bytes} bytes"))
            if self._bad is not None:
                return
        for new in self.read([bytes(rest)]):
            yield new

    async def summed(self, kept: AsyncIterable[list[Remembered]]) -> ImportSummary:
        """What became of the items while they are kept batch by batch; an error names the line it is about."""
        read = new = 0
        try:
            async for batch in kept:
                read += len(batch)
                new += sum(remembered.was_new for remembered in batch)
        except RecordariError as error:
            raise self.located(error) from error
        self.finish()
        return ImportSummary(read=read, new=new, existing=read - new)

    def finish(self) -> None:
        """Raise what was wrong with the line at which the reading stopped."""
        if self._bad is not None:
            raise self._bad

    def located(self, error: RecordariError) -> RecordariError:
        """The error of an import with the line that it is about."""
        index = error.details.get("index")
        if index is None:
            return error
        return _at_line(error, self._numbers[index - self._items])

    def _item(self, line: bytes) -> NewItem | None:
        self._number += 1
        if not line.strip():
            return None
        try:
            check_json(line, max_depth=MAX_DEPTH)
            new = ImportedItem.model_validate_json(line).new_item()
        except ValidationError as error:
            found = field_errors(error.errors())
            reasons = "; ".join(f"{each.field}: {each.message}" if each.field else each.message for each in found[:5])
            self._refuse(InvalidInput(reasons))
            return None
        except InvalidInput as error:
            self._refuse(error)
            return None
        self._items += 1
        self._numbers.append(self._number)
        return new

    def _refuse(self, error: RecordariError) -> None:
        self._bad = _at_line(error, self._number)


async def text_lines(chunks: AsyncIterable[bytes], *, max_bytes: int) -> AsyncGenerator[str, None]:
    """Lines that arrive in pieces, as text of JSON that can be stored; a line may have `max_bytes`."""
    rest, number = bytearray(), 0
    async for chunk in chunks:
        rest += chunk
        *whole, last = bytes(rest).split(b"\n") if b"\n" in chunk else [bytes(rest)]
        for line in whole:
            number += 1
            yield _text(line, number)
        if whole:
            rest = bytearray(last)
        if len(rest) > max_bytes:
            raise TooLarge(f"a line may have at most {max_bytes} bytes", line=number + 1)
    if rest.strip():
        yield _text(bytes(rest), number + 1)


def _text(line: bytes, number: int) -> str:
    try:
        check_json(line, max_depth=2 * MAX_DEPTH)
    except InvalidInput as error:
        raise InvalidInput(error.message, line=number) from error
    return line.decode("utf-8")


def _at_line(error: RecordariError, number: int) -> RecordariError:
    return type(error)(
        f"line {number}: {error.message}; what stands before it is kept: correct it and send everything again",
        field=f"line {number}",
    )
