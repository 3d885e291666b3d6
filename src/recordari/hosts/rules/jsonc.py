"""Edits JSON that people write in place: what is not edited keeps every byte.

It reads comments, trailing commas, single quotes and names without quotes, as JSON5 has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from recordari.errors import InvalidInput

_SPACE = " \t\r\n"
_ENDS_SCALAR = frozenset(",]}/" + _SPACE)
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")


@dataclass(slots=True)
class Node:
    """A value of the text: where it begins and ends, and what is in it."""

    start: int
    end: int = 0
    opening: str = ""
    """`{` or `[`; empty for other values."""
    keys: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Where each part begins: a member at its key."""
    parts: list[Node] = field(default_factory=list)

    def find(self, key: str) -> Node | None:
        return self.parts[self.keys.index(key)] if self.opening == "{" and key in self.keys else None


def parse(text: str) -> Node:
    """Read the text as a tree of places; `InvalidInput` where it is not JSON."""
    reader = _Reader(text)
    node = reader.value(reader.skip(0))
    if reader.skip(node.end) != len(text):
        raise InvalidInput(f"there is more text after the value, at character {reader.skip(node.end)}")
    return node


def value_of(text: str, node: Node) -> Any:
    """The Python value of a node."""
    if node.opening == "{":
        return {key: value_of(text, part) for key, part in zip(node.keys, node.parts, strict=True)}
    if node.opening == "[":
        return [value_of(text, part) for part in node.parts]
    return _scalar(text[node.start : node.end])


def _scalar(written: str) -> Any:
    if written.startswith("'"):
        inner = re.sub(r"""\\(.)|(")""", lambda m: "'" if m[1] == "'" else '\\"' if m[2] else m[0], written[1:-1])
        written = f'"{inner}"'
    return json.loads(written)


def read(text: str) -> Any:
    return value_of(text, parse(text))


def set_member(text: str, path: Sequence[str], key: str, value: Any) -> str:
    """Set a member of the object at `path`, which is made where it is missing."""
    node, missing = _walk(text, path)
    if not missing and (old := node.find(key)) is not None:
        indent = _indent_of(text, node.starts[node.keys.index(key)])
        return text[: old.start] + _written(value, indent, _unit(text)) + text[old.end :]
    for name in reversed([*missing[1:], key] if missing else []):
        value = {name: value}
    return _added(text, node, missing[0] if missing else key, value)


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Append to the array at `path`, which is made where it is missing."""
    node, missing = _walk(text, path)
    if missing:
        value = [value]
        for name in reversed(missing[1:]):
            value = {name: value}
        return _added(text, node, missing[0], value)
    if node.opening != "[":
        raise InvalidInput(f"{'.'.join(path)} is no list")
    return _added(text, node, None, value)


def remove_member(text: str, path: Sequence[str], key: str) -> str:
    """Remove a member; nothing changes where there is none."""
    node, missing = _walk(text, path)
    return text if missing or key not in node.keys else _removed(text, node, node.keys.index(key))


def remove_items(text: str, path: Sequence[str], containing: str) -> str:
    """Remove the items of the array at `path` whose own text contains `containing`."""
    while True:
        node, missing = _walk(text, path)
        if missing or node.opening != "[":
            return text
        ours = [i for i, part in enumerate(node.parts) if containing in text[part.start : part.end]]
        if not ours:
            return text
        text = _removed(text, node, ours[-1])


def paths_of(text: str) -> frozenset[tuple[str, ...]]:
    """The paths of all objects and lists below objects."""

    def below(node: Node, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for key, part in zip(node.keys, node.parts, strict=False):
            if part.opening:
                yield (*path, key)
                yield from below(part, (*path, key))

    return frozenset(below(parse(text), ()))


def is_empty(text: str, path: Sequence[str]) -> bool:
    """Whether the object or list at `path` exists and has nothing in it."""
    node, missing = _walk(text, path)
    return not missing and bool(node.opening) and not node.parts


def _walk(text: str, path: Sequence[str]) -> tuple[Node, list[str]]:
    """The deepest node of the path that exists, and the names that are missing below it."""
    node = parse(text)
    for depth, name in enumerate(path):
        if node.opening != "{":
            raise InvalidInput(f"{'.'.join(path[:depth]) or 'the file'} is no object")
        found = node.find(name)
        if found is None:
            return node, list(path[depth:])
        node = found
    return node, []


def _added(text: str, node: Node, key: str | None, value: Any) -> str:
    """Add a last part to an object (with a key) or a list."""
    if key is not None and node.opening != "{":
        raise InvalidInput("it is no object")
    unit = _unit(text)
    if node.parts:
        indent = _indent_of(text, node.starts[-1])
        written = _part(key, value, indent, unit)
        place = node.parts[-1].end
        comma = _Reader(text).skip(place)
        # A comment behind the last part stays behind it.
        if text[comma] == ",":
            after = _end_of_line_comment(text, comma + 1)
            return f"{text[:after]}{_gap(text, node, indent)}{written},{text[after:]}"
        after = _end_of_line_comment(text, place)
        return f"{text[:place]},{text[place:after]}{_gap(text, node, indent)}{written}{text[after:]}"
    outer = _indent_of(text, node.start)
    indent = outer + unit
    inside = text[node.start + 1 : node.end - 1].rstrip()
    line = "\r\n" if "\r\n" in text else "\n"
    return (
        f"{text[: node.start + 1]}{inside}{line}{indent}{_part(key, value, indent, unit)}{line}{outer}"
        f"{text[node.end - 1 :]}"
    )


def _removed(text: str, node: Node, index: int) -> str:
    start, end = node.starts[index], node.parts[index].end
    reader = _Reader(text)
    while text[start - 1] in _SPACE:
        start -= 1
    comma = reader.skip(end)
    if text[comma] == ",":
        return text[:start] + text[comma + 1 :]
    if index:
        before = reader.skip(node.parts[index - 1].end)
        return text[:before] + text[before + 1 : start] + text[end:]
    inside = text[node.start + 1 : start] + text[end : node.end - 1]
    return text[: node.start + 1] + (inside if inside.strip() else "") + text[node.end - 1 :]


def _part(key: str | None, value: Any, indent: str, unit: str) -> str:
    written = _written(value, indent, unit)
    return written if key is None else f"{json.dumps(key, ensure_ascii=False)}: {written}"


def _written(value: Any, indent: str, unit: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", f"\n{indent}")


def _gap(text: str, node: Node, indent: str) -> str:
    """What is between one part of a node and the next: a line break, or a space where all are on one line."""
    if "\n" not in text[node.start : node.starts[-1]]:
        return " "
    return ("\r\n" if "\r\n" in text else "\n") + indent


def _indent_of(text: str, place: int) -> str:
    """The white space at the beginning of the line of a place; none where something else is before it."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """One step of indentation, as the file has it."""
    indents = [line[: len(line) - len(line.lstrip())] for line in text.splitlines() if line.strip()]
    steps = [longer.removeprefix(shorter) for shorter, longer in pairwise(indents) if longer.startswith(shorter)]
    return next((step for step in steps if step), "  ")


def _end_of_line_comment(text: str, place: int) -> int:
    """The end of a comment that follows on the same line, else the place itself."""
    start = place
    while start < len(text) and text[start] in " \t":
        start += 1
    if text.startswith("//", start):
        end = text.find("\n", start)
        return len(text) if end < 0 else end - (text[end - 1] == "\r")
    if text.startswith("/*", start) and "\n" not in text[start : (end := text.find("*/", start) + 2)]:
        return end
    return place


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, place: int) -> int:
        """The first place that is neither white space nor a comment."""
        text = self._text
        while place < len(text):
            if text[place] in _SPACE or text[place] == "\ufeff":
                place += 1
            elif text.startswith("//", place):
                end = text.find("\n", place)
                place = len(text) if end < 0 else end
            elif text.startswith("/*", place):
                end = text.find("*/", place + 2)
                if end < 0:
                    raise InvalidInput("a comment does not end")
                place = end + 2
            else:
                break
        return place

    def value(self, place: int) -> Node:
        text = self._text
        if place >= len(text):
            raise InvalidInput("it ends too early")
        node = Node(place)
        if text[place] in "{[":
            self._inside(node)
        elif text[place] in "\"'":
            node.end = self._end_of_string(place)
        else:
            node.end = place
            while node.end < len(text) and text[node.end] not in _ENDS_SCALAR:
                node.end += 1
        if not node.opening:
            self._check(node)
        return node

    def _inside(self, node: Node) -> None:
        text = self._text
        node.opening = text[node.start]
        closing = "}" if node.opening == "{" else "]"
        place = self.skip(node.start + 1)
        while self._at(place) != closing:
            node.starts.append(place)
            if node.opening == "{":
                end = self._end_of_name(place)
                bare = text[place] not in "\"'"
                node.keys.append(text[place:end] if bare else _scalar(text[place:end]))
                place = self.skip(end)
                if self._at(place) != ":":
                    raise InvalidInput(f"there is no colon at character {place}")
                place = self.skip(place + 1)
            part = self.value(place)
            node.parts.append(part)
            place = self.skip(part.end)
            if self._at(place) == ",":
                place = self.skip(place + 1)
            elif self._at(place) != closing:
                raise InvalidInput(f"there is no comma at character {place}")
        node.end = place + 1

    def _at(self, place: int) -> str:
        if place >= len(self._text):
            raise InvalidInput("it ends too early")
        return self._text[place]

    def _end_of_name(self, place: int) -> int:
        if self._at(place) in "\"'":
            return self._end_of_string(place)
        name = _NAME.match(self._text, place)
        if name is None:
            raise InvalidInput(f"there is no name at character {place}")
        return name.end()

    def _end_of_string(self, place: int) -> int:
        end, quote = place + 1, self._text[place]
        while self._at(end) != quote:
            end += 2 if self._text[end] == "\\" else 1
        return end + 1

    def _check(self, node: Node) -> None:
        try:
            _scalar(self._text[node.start : node.end])
        except ValueError:
            raise InvalidInput(f"there is no value at character {node.start}") from None
