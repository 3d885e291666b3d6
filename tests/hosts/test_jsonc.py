"""Files that people write are edited in place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.errors import InvalidInput
from recordari.hosts.rules import jsonc

WRITTEN = [
    "{}",
    '{"a":1}\n',
    '{\n  // of mine\n  "theme": "dark", // for the night\n  "hooks": {"Stop": [{"x": 1}]} // last\n}\n',
    '{\n\t"a": [1, 2,],\n\t/* none */\n}',
    '\ufeff{\r\n    "mcpServers": {}\r\n}\r\n',
    "{\n  mcpServers: {}, // bare\n  $schema: 'a \"b\" \\'c\\'',\n  'x y': [1],\n}\n",
    '{"deep": {"hooks": {}}, "text": "a \\"quoted\\" { // no comment", "hooks": {\n      "Stop": [\n      ],\n  }}',
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def edited(text: str) -> str:
    text = jsonc.set_member(text, ("mcpServers",), "recordari", {"command": "x", "args": ["y", "ü"]})
    return jsonc.append(text, ("hooks", "Stop"), {"hooks": [{"command": "recordari hook"}]})


def restored(text: str, before: str) -> str:
    text = jsonc.remove_items(text, ("hooks", "Stop"), "recordari hook")
    text = jsonc.remove_member(text, ("mcpServers",), "recordari")
    for path in (("hooks", "Stop"), ("hooks",), ("mcpServers",)):
        if path not in jsonc.paths_of(before) and jsonc.is_empty(text, path):
            text = jsonc.remove_member(text, path[:-1], path[-1])
    return text


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_added_is_removed_to_the_byte_and_all_else_stays(text: str) -> None:
    after, before = jsonc.read(edited(text)), jsonc.read(text)
    assert after["mcpServers"]["recordari"] == {"command": "x", "args": ["y", "ü"]}
    assert after["hooks"]["Stop"][-1] == {"hooks": [{"command": "recordari hook"}]}
    assert {name: after[name] for name in before if name not in {"hooks", "mcpServers"}}.items() <= before.items()
    for comment in ("// of mine", "// for the night", "// last", "/* none */"):
        assert (comment in text) == (comment in edited(text))
    if 'Stop": [\n' not in text:  # the white space of an empty list is nobody's
        assert restored(edited(text), text) == text


@given(value=st.dictionaries(st.text(max_size=6), VALUES, max_size=5), indent=st.sampled_from([None, 1, 2, "\t"]))
def test_any_file_comes_back(value: dict[str, object], indent: int | str | None) -> None:
    value = {name: part for name, part in value.items() if name not in {"hooks", "mcpServers"}}
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    assert jsonc.read(edited(text)) == {**value, **jsonc.read(edited("{}"))}
    assert restored(edited(text), text) == text


def test_single_quotes_and_bare_names_are_read() -> None:
    assert jsonc.read("""{a: 'it\\'s "so"', $b: "c", 'd e': [true,], }""") == {
        "a": 'it\'s "so"',
        "$b": "c",
        "d e": [True],
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{a b: 1}",
        "{1a: 2}",
        "{'a: 1}",
        '{"a" 1}',
        '{"a": }',
        "[1 2]",
        '{"a": 1} x',
        "{ /* }",
        '{"a": nul}',
        '{"a',
    ],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        jsonc.set_member(text, (), "b", 1)


def test_a_value_in_the_way_is_never_replaced() -> None:
    with pytest.raises(InvalidInput, match="no object"):
        jsonc.append('{"hooks": false}', ("hooks", "Stop"), {})
    with pytest.raises(InvalidInput, match="no list"):
        jsonc.append('{"hooks": {"Stop": "none"}}', ("hooks", "Stop"), {})
