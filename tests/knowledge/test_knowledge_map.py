"""C3: the knowledge map, a pure function."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recordari.core.tokens import estimated_tokens
from recordari.knowledge.rules.knowledge_map import MAP_TOKENS, MOST_MAP_TOKENS, MapEntry, SourceKind, written_map


def test_the_map_names_each_source_with_the_tool_that_reaches_it() -> None:
    assert written_map(
        [
            MapEntry(name="Handbook", kind=SourceKind.DOCUMENTS, description="Company policies.", documents=12),
            MapEntry(name="Sales", kind=SourceKind.DATABASE, description="Orders and customers"),
            MapEntry(name="Jira", kind=SourceKind.API, description="Tickets", tool="jira_search"),
            MapEntry(name="Files", kind=SourceKind.MCP),
        ]
    ).splitlines() == [
        "What can be looked up, and with which tool:",
        "- recall: what was said, learned and done before",
        "- its own tools: Files (MCP server)",
        "- jira_search: Jira (API), Tickets",
        "- query_data: Sales (database), Orders and customers",
        "- search_knowledge: Handbook (12 documents), Company policies",
    ]


def test_a_source_without_documents_is_not_offered() -> None:
    assert "Empty" not in written_map([MapEntry(name="Empty", kind=SourceKind.DOCUMENTS)])


def test_descriptions_give_way_before_sources_do() -> None:
    entries = [MapEntry(name=f"Source {n}", kind=SourceKind.API, description="long words " * 40) for n in range(6)]
    text = written_map(entries)
    assert estimated_tokens(text) <= MAP_TOKENS
    assert all(f"Source {n}" in text for n in range(6))


def test_what_does_not_fit_is_counted() -> None:
    entries = [MapEntry(name=f"Source number {n:03}", kind=SourceKind.API) for n in range(200)]
    text = written_map(entries)
    assert estimated_tokens(text) <= MOST_MAP_TOKENS
    named = text.count("Source number")
    assert f"- and {200 - named} more" in text


ENTRIES = st.builds(
    MapEntry,
    name=st.text(min_size=1, max_size=200),
    kind=st.sampled_from(SourceKind),
    description=st.text(max_size=300),
    documents=st.integers(0, 10**6),
)


@given(st.lists(ENTRIES, max_size=30))
def test_no_sources_make_it_longer_than_its_budget(entries: list[MapEntry]) -> None:
    assert estimated_tokens(written_map(entries)) <= MOST_MAP_TOKENS
