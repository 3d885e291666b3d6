"""Cutting documents into chunks: pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.core.tokens import estimated_tokens
from recordari.knowledge.rules.chunks import (
    MOST_CHARACTERS,
    MOST_TOKENS,
    Block,
    BlockKind,
    chunked,
    context_of,
    title_of,
)
from recordari.knowledge.rules.markup import blocks_of_html, blocks_of_markdown, blocks_of_text

SENTENCE = "The tall ship sails past the old harbour wall every morning. "


def test_chunks_follow_headings_and_carry_their_path() -> None:
    text = f"# Guide\n\n## Sails\n\n{SENTENCE * 18}\n\n## Ropes\n\n{SENTENCE * 18}\n\n### Knots\n\n{SENTENCE * 18}"
    chunks = chunked(blocks_of_markdown(text))
    assert [chunk.heading for chunk in chunks] == [("Guide",), ("Guide", "Ropes"), ("Guide", "Ropes", "Knots")] or [
        chunk.heading for chunk in chunks
    ] == [("Guide", "Sails"), ("Guide", "Ropes"), ("Guide", "Ropes", "Knots")]


def test_small_sections_share_a_chunk() -> None:
    text = "\n\n".join(f"## Part {n}\n\nA short remark." for n in range(8))
    assert len(chunked(blocks_of_markdown(text))) == 1


def test_a_sentence_is_not_cut_where_it_can_be_helped() -> None:
    chunks = chunked(blocks_of_text(SENTENCE * 200))
    assert len(chunks) > 5
    assert all(chunk.content.endswith("morning.") for chunk in chunks)
    assert " ".join(chunk.content for chunk in chunks) == (SENTENCE * 200).strip()


def test_rows_of_a_long_table_stay_whole_and_know_their_columns() -> None:
    rows = "\n".join(f"| item {n} | {n} euros |" for n in range(200))
    chunks = chunked(blocks_of_markdown(f"# Prices\n\n| item | price |\n|---|---|\n{rows}"))
    assert len(chunks) > 3
    assert all(line.count("|") == 1 for chunk in chunks[1:] for line in chunk.content.splitlines())
    assert chunks[-1].heading == ("Prices", "item | price")


def test_code_is_one_block_and_not_read_as_headings() -> None:
    blocks = blocks_of_markdown("```\n# not a heading\n\nx = 1\n```\n\nAfter")
    assert [block.kind for block in blocks] == [BlockKind.CODE, BlockKind.PARAGRAPH]


def test_a_document_is_called_by_its_first_heading_or_its_name() -> None:
    assert title_of(blocks_of_markdown("# Leave policy\n\nText"), "x.md") == "Leave policy"
    assert title_of(blocks_of_text("Text"), "hr/leave_policy.txt") == "leave policy"
    assert context_of("Leave", ("Leave", "Sick days")) == "Leave › Sick days"


def test_pages_are_kept() -> None:
    blocks = [Block(kind=BlockKind.PARAGRAPH, text=SENTENCE * 18, page=page) for page in (1, 2, 3)]
    assert [chunk.page for chunk in chunked(blocks)] == [1, 2, 3]


@given(st.text(max_size=3_000))
def test_any_text_is_cut_into_bounded_chunks_without_losing_a_word(text: str) -> None:
    blocks = blocks_of_text(text)
    chunks = chunked(blocks)
    assert all(len(chunk.content) <= MOST_CHARACTERS for chunk in chunks)
    assert all(estimated_tokens(chunk.content) <= MOST_TOKENS + 20 for chunk in chunks)
    said = "".join("".join(block.text.split()) for block in blocks)
    assert "".join("".join(chunk.content.split()) for chunk in chunks) == said


@given(st.text(alphabet="#-*|`~=<>/ \nabcdivptr&;1.", max_size=400))
def test_any_markup_is_read(text: str) -> None:
    for blocks in (blocks_of_markdown(text), blocks_of_html(text)):
        chunks = chunked(blocks)
        assert bool(chunks) == any(block.text.strip() for block in blocks)
        assert all(chunk.content.strip() and len(chunk.content) <= MOST_CHARACTERS for chunk in chunks)


@pytest.mark.parametrize(
    "text",
    ["# a" + " " * 300_000 + "b", "# a" + " #" * 300_000 + "b", "a|b\n" + " " * 300_000 + "-x", "x" * 2_000_000],
    ids=["heading", "closing marks", "rule of a table", "one word"],
)
def test_markdown_is_read_and_cut_in_time_that_grows_with_its_size(text: str) -> None:
    chunks = chunked(blocks_of_markdown(text))
    assert chunks and all(len(chunk.content) <= MOST_CHARACTERS for chunk in chunks)
