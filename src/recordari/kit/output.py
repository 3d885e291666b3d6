"""Output of the command line: JSON for programs; tables and lines without control characters for people.

A command returns an `Answer`, a `Table` or a `Record`; `answering` prints it and gives the command its `--json`.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import sys
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from recordari.errors import RecordariError

if TYPE_CHECKING:
    from rich.console import Console

Function = TypeVar("Function", bound=Callable[..., Any])

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Text that others wrote must not move the cursor, change the terminal's title or turn a line around.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PIPE_WIDTH = 200
_SHOWN_CHARACTERS = 400
_LONG = 24  # a cell of words that is wider may be folded; ids and times never are


def clean(text: object) -> str:
    """Return a text as one line, without control characters, escape sequences and direction marks."""
    spaced = str(text).replace("\n", " ").replace("\t", " ")
    return "".join(c for c in spaced if c not in _BIDI and unicodedata.category(c) not in {"Cc", "Cs", "Zl", "Zp"})


def shown(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%MZ}"
        case dict() | list():
            return clean(json.dumps(value, ensure_ascii=False))
        case _:
            return clean(value)


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun: 1 item, 2 items."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def size(count: float) -> str:
    if count < 1000:
        return f"{count:.0f} bytes"
    units = ("kB", "MB", "GB", "TB")
    power = min(len(units), int(math.log10(count) // 3))
    return f"{count / 1000**power:.1f} {units[power - 1]}"


FILLS = "█▓▒░▞▚"
"""The parts of a bar, in the order in which they are drawn; a seventh part looks like the first."""


def stacked(parts: Sequence[float], most: float, *, width: int = 32) -> str:
    """Draw parts of a whole as one bar, of which `most` fills the width; negative parts are left out."""
    drawn, total = "", 0.0
    for number, part in enumerate(parts):
        total += max(0.0, part)
        drawn = drawn.ljust(min(width, round(total / most * width)) if most > 0 else 0, FILLS[number % len(FILLS)])
    return drawn.ljust(width)


def span(first: datetime, past: datetime, *, start: datetime, end: datetime, width: int = 40) -> str:
    """Draw a time as a part of another: `····████··`; the shortest is one character."""
    whole = max((end - start).total_seconds(), 1.0)
    left = min(width - 1, round((first - start).total_seconds() / whole * width))
    right = max(left + 1, min(width, round((past - start).total_seconds() / whole * width)))
    return "·" * left + "█" * (right - left) + "·" * (width - right)


def record(thing: Any, *, without: Collection[str] = ()) -> dict[str, Any]:
    """List the fields of a dataclass, in their order."""
    return {field.name: getattr(thing, field.name) for field in fields(thing) if field.name not in without}


def print_json(data: object) -> None:
    """Print JSON; ASCII only, so that no character in it can act on a terminal."""
    sys.stdout.write(json.dumps(data, indent=2, default=_encoded) + "\n")


def _encoded(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if is_dataclass(value) and not isinstance(value, type):
        return record(value)
    return str(value)


def print_line(text: object = "") -> None:
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Print a note for a person; it goes to standard error, beside the answer."""
    sys.stderr.write(clean(text) + "\n")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows (mappings or dataclasses) under the names of their columns, or a note that there are none."""

    data: Sequence[Any]
    empty: str = field(kw_only=True)
    columns: Sequence[str] = field(default=(), kw_only=True)
    """The columns a person sees; all, if left out."""
    styles: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Colours of cells, by the text of the cell."""

    def show(self) -> None:
        rows = [row if isinstance(row, Mapping) else record(row) for row in self.data]
        if rows:
            _draw([{name: row[name] for name in self.columns or row} for row in rows], self.styles)
        else:
            print_note(self.empty)


@dataclass(frozen=True, slots=True)
class Record:
    """One thing (a mapping or a dataclass), a line for each field."""

    data: Any

    def show(self) -> None:
        values = self.data if isinstance(self.data, Mapping) else record(self.data)
        width = max(map(len, values), default=0)
        for name, value in values.items():
            print_line(f"{name.replace('_', ' '):<{width}}  {shown(value) or '–'}")


@dataclass(frozen=True, slots=True)
class Text:
    data: str

    def show(self) -> None:
        for line in self.data.splitlines():
            print_line(line)


@dataclass(frozen=True, slots=True)
class Hint:
    """A remark for a person that is not part of the answer."""

    data: str

    def show(self) -> None:
        print_note(self.data)


class Answer:
    """The answer of a command: data for programs and, for people, its parts in order. A plain text is one line."""

    def __init__(self, data: object, *parts: Table | Record | Text | Hint | str | None, code: int = 0) -> None:
        self.data = data
        self.parts = parts
        self.code = code  # the exit code

    def show(self) -> None:
        for part in self.parts:
            if isinstance(part, str):
                print_line(part)
            elif part is not None:
                part.show()


def answering(command: Callable[..., Any]) -> Callable[..., Any]:
    """Print the value that a command returns, and add `--json`. A command whose signature returns None stays as it is."""
    signature = inspect.signature(command, eval_str=True)
    if signature.return_annotation is None:
        return command

    @functools.wraps(command)
    def run(*, as_json: bool, **options: Any) -> None:
        answer = command(**options)
        if answer is None:
            return
        if as_json:
            print_json(answer.data)
        else:
            answer.show()
        if isinstance(answer, Answer) and answer.code:
            raise typer.Exit(answer.code)

    option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


class Commands(typer.Typer):
    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Declare a command; its first sentence is its line of help. Typer alone would cut that line."""
        register = super().command

        def declare(function: Function) -> Function:
            summary = (function.__doc__ or "").partition("\n")[0]
            register(name, **{"short_help": summary, **settings})(answering(function))
            return function

        return declare


def _draw(rows: Sequence[Mapping[str, object]], styles: Mapping[str, str]) -> None:
    """Draw a table on standard output.

    If the terminal is too narrow, empty columns are omitted and long texts are folded. Ids and times never are: an
    id that is broken in two cannot be copied.
    """
    from rich.table import Table as Drawing
    from rich.text import Text as Cell

    screen = console()
    columns = {name.replace("_", " "): [shown(row[name]) for row in rows] for name in rows[0]}
    if _width(columns) > screen.width:
        columns = {head: cells for head, cells in columns.items() if set(cells) - {"", "–"}}
    folded = {head for head, cells in columns.items() if any(" " in cell and len(cell) > _LONG for cell in cells)}
    narrowest = _width({head: [""] if head in folded else cells for head, cells in columns.items()})
    screen.width = max(screen.width, narrowest + _LONG * len(folded))

    table = Drawing(box=None, pad_edge=False, header_style="bold")
    for head in columns:
        table.add_column(head, overflow="fold", no_wrap=head not in folded)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*(Cell(cell, style=styles.get(cell, "")) for cell in cells))
    with screen.capture() as capture:
        screen.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    from rich.cells import cell_len

    return sum(max(map(cell_len, [head, *cells])) + 2 for head, cells in columns.items())


def console(*, stderr: bool = False) -> Console:
    """Open a terminal to draw on. A pipe counts as wide enough for every id."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else _PIPE_WIDTH)


def confirm(question: str, *, yes: bool) -> None:
    """Continue only if you agree; without a terminal you need `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        print_note(f"error: nothing was done. {question} Repeat the command with --yes to confirm.")
        raise typer.Exit(2)
    typer.confirm(question, abort=True, err=True)


def fail(error: RecordariError) -> None:
    print_note(f"error: {error.message}")
