"""K3 and the folders of K1: sources are registered, synchronised and told of in the knowledge map."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recordari.app import Memory
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound
from recordari.knowledge.rules.knowledge_map import Source
from recordari.schedule import JOBS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "allowed" / "handbook"
    (place / "hr").mkdir(parents=True)
    (place / "leave.md").write_text("# Leave\n\nThirty days a year.")
    (place / "hr" / "pay.txt").write_text("Pay day is the 25th.")
    (place / "photo.png").write_bytes(b"\x89PNG")
    (place / ".hidden.md").write_text("not for reading")
    return place


@pytest.fixture
def operator(memory: Memory, folder: Path) -> Memory:
    settings = memory.resources.settings.model_copy(update={"document_folders": [folder.parent]})
    return Memory(replace(memory.resources, settings=settings), memory.identity)


@pytest.fixture
async def handbook(operator: Memory, folder: Path) -> Source:
    return await operator.add_source("handbook", description="Rules of work", folder=folder)


async def test_a_folder_is_taken_in_revised_and_emptied_with_its_files(
    operator: Memory, handbook: Source, folder: Path
) -> None:
    seen: list[tuple[int, int]] = []
    first = await operator.sync_source(handbook.source_id, progress=lambda done, total: seen.append((done, total)))
    assert (first.added, first.failures, seen) == (2, 0, [(1, 2), (2, 2)])
    assert {one.name for one in await operator.list_documents(source="handbook")} == {"leave.md", "hr/pay.txt"}
    assert "- search_knowledge: handbook (2 documents), Rules of work" in await operator.knowledge_map()
    (folder / "leave.md").write_text("# Leave\n\nThirty-one days a year.")
    (folder / "hr" / "pay.txt").unlink()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    second = await operator.sync_source(handbook.source_id)
    assert (second.revised, second.removed, second.unchanged) == (1, 1, 0)
    assert [name for name, _ in second.failed] == ["broken.pdf"] and "damaged" in second.failed[0][1]
    (item,) = (await operator.search_knowledge("days of leave")).items
    assert "Thirty-one" in item.content
    kept = (await operator.get_source(handbook.source_id)).sync
    assert kept is not None and (kept["status"], kept["failures"]) == ("finished", 1)


async def test_synchronising_runs_as_a_job(operator: Memory, handbook: Source) -> None:
    assert await operator.start_sync(handbook.source_id) is not None
    await JOBS["sync_source"].run(operator.resources, operator.identity, source_id=str(handbook.source_id))
    assert (await operator.get_source(handbook.source_id)).documents == 2


async def test_only_folders_that_the_operator_allows_are_read(operator: Memory, memory: Memory, folder: Path) -> None:
    outside = folder.parent.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("The master key is under the mat")
    with pytest.raises(Forbidden, match="RECORDARI_DOCUMENT_FOLDERS"):
        await operator.add_source("outside", folder=outside)
    with pytest.raises(Forbidden):
        await operator.add_source("outside", folder=folder / ".." / ".." / "outside")
    with pytest.raises(Forbidden):
        await memory.add_source("handbook", folder=folder)
    with pytest.raises(InvalidInput, match="no such folder"):
        await operator.add_source("missing", folder=folder / "missing")
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "linked").symlink_to(outside)
    source = await operator.add_source("handbook", folder=folder)
    await operator.sync_source(source.source_id)
    assert {one.name for one in await operator.list_documents()} == {"leave.md", "hr/pay.txt"}
    with pytest.raises(Forbidden):
        await memory.sync_source(source.source_id)


async def test_a_source_goes_with_its_documents(operator: Memory, handbook: Source) -> None:
    await operator.sync_source(handbook.source_id)
    assert await operator.remove_source(handbook.source_id) == 2
    assert (await operator.search_knowledge("pay day")).items == ()
    with pytest.raises(NotFound):
        await operator.remove_source(handbook.source_id)


async def test_sources_of_every_kind_are_named_with_what_reaches_them(memory: Memory) -> None:
    await memory.add_source("Shop", kind="database", description="Orders of the shop")
    jira = await memory.add_source("Jira", kind="api", description="Tickets", tool="jira_search")
    with pytest.raises(Conflict):
        await memory.add_source("Jira", kind="api")
    with pytest.raises(InvalidInput):
        await memory.add_source("x", kind="planet")
    with pytest.raises(InvalidInput):
        await memory.add_document("a.txt", text="a", source="Jira")
    await memory.update_source(jira.source_id, description="Tickets of the team")
    shown = await memory.knowledge_map()
    assert "- query_data: Shop (database), Orders of the shop" in shown
    assert "- jira_search: Jira (API), Tickets of the team" in shown
    await memory.remove_source(jira.source_id)
    assert "Jira" not in await memory.knowledge_map()
