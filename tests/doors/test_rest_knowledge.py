"""Sources, documents, the knowledge map and profiles over REST."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.rest_door import open_door
from tests.pdf_writer import written

from recordari.kit.resources import Resources


async def test_a_document_is_sent_found_cited_read_and_removed(resources: Resources) -> None:
    async with open_door(resources) as door:
        sent = await door.request(
            "POST",
            "/v1/documents?name=returns.md&title=Returns",
            content=b"## Exceptions\n\nFlowers are not taken back.",
            headers={"Content-Type": "text/markdown; charset=utf-8"},
        )
        assert sent.status_code == 201, sent.text
        document = sent.json()["document"]
        assert (document["title"], document["revision"], document["source"]) == ("Returns", 1, "documents")
        asked = {"query": "Are flowers taken back?", "source": "documents"}
        answer = (await door.request("POST", "/v1/search_knowledge", key="agent", json=asked)).json()
        citation = answer["items"][0]["citation"]
        assert citation["document"] == "returns.md" and citation["heading"] == ["Exceptions"]
        assert "trace" not in answer
        text = await door.request("GET", f"/v1/documents/{citation['document_id']}/text", key="agent")
        assert text.json()["chunks"][0]["content"] == "Exceptions\n\nFlowers are not taken back."
        original = await door.request("GET", f"/v1/documents/{citation['document_id']}/original")
        assert original.content == b"## Exceptions\n\nFlowers are not taken back."
        assert original.headers["content-disposition"] == "attachment"
        again = await door.request("POST", "/v1/documents?name=returns.md", content=b"Everything is taken back.")
        assert again.status_code == 200 and again.json()["document"]["revision"] == 2
        listed = (await door.request("GET", "/v1/documents?source=documents")).json()["items"]
        assert [one["name"] for one in listed] == ["returns.md"]
        assert (await door.request("DELETE", f"/v1/documents/{citation['document_id']}")).status_code == 204
        assert (await door.request("GET", f"/v1/documents/{citation['document_id']}")).status_code == 404


async def test_a_form_brings_a_file_with_its_metadata(resources: Resources) -> None:
    async with open_door(resources) as door:
        await door.request("POST", "/v1/sources", json={"name": "manuals", "description": "How machines work"})
        pdf = written(["The boiler is checked in October."])
        sent = await door.request(
            "POST",
            "/v1/documents",
            files={"file": ("boiler.pdf", pdf, "application/pdf")},
            data={"source": "manuals", "metadata": '{"author": "Ada"}'},
        )
        assert sent.status_code == 201, sent.text
        document = sent.json()["document"]
        assert (document["name"], document["pages"], document["metadata"]) == ("boiler.pdf", 1, {"author": "Ada"})
        shown = (await door.request("GET", "/v1/knowledge/map", key="agent")).json()["text"]
        assert "- search_knowledge: manuals (1 document), How machines work" in shown
        for form in ({"files": {"other": b"x"}}, {"files": {"file": ("a.txt", b"x")}, "data": {"metadata": "[1]"}}):
            assert (await door.request("POST", "/v1/documents", **form)).status_code == 422
        broken = {"Content-Type": "multipart/form-data"}
        assert (await door.request("POST", "/v1/documents", content=b"--", headers=broken)).status_code == 422


@pytest.mark.parametrize("form", [False, True])
async def test_a_document_over_the_limit_is_refused_while_it_comes_in(resources: Resources, form: bool) -> None:
    async with open_door(resources, document_max_bytes=2048) as door:
        body = b"x" * 200_000
        more = {"files": {"file": ("a.txt", body)}} if form else {"content": body}
        refused = await door.request("POST", "/v1/documents?name=a.txt", **more)
        assert refused.status_code == 413
        assert (await door.request("GET", "/v1/documents")).json()["items"] == []


async def test_only_an_administrator_sends_documents_and_registers_sources(resources: Resources) -> None:
    async with open_door(resources) as door:
        for key in ("agent", "alice"):
            refused = await door.request("POST", "/v1/documents?name=a.txt", key=key, content=b"x")
            assert refused.status_code == 403
            assert (await door.request("POST", "/v1/sources", key=key, json={"name": "a"})).status_code == 403


async def test_no_caller_makes_the_server_read_its_own_files(resources: Resources, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("of the machine")
    async with open_door(resources, document_folders=[tmp_path]) as door:
        refused = await door.request("POST", "/v1/sources", json={"name": "files", "folder": str(tmp_path)})
        assert refused.status_code == 422
        made = (await door.request("POST", "/v1/sources", json={"name": "plain"})).json()
        answer = await door.request("POST", f"/v1/sources/{made['source_id']}/sync")
        assert answer.status_code == 422 and "no folder" in answer.json()["detail"]


async def test_sources_are_registered_changed_listed_and_removed(resources: Resources) -> None:
    async with open_door(resources) as door:
        jira = {"name": "Jira", "kind": "api", "description": "Tickets", "tool": "jira_search"}
        made = await door.request("POST", "/v1/sources", json=jira)
        assert made.status_code == 201
        assert (await door.request("POST", "/v1/sources", json=jira)).status_code == 409
        path = f"/v1/sources/{made.json()['source_id']}"
        changed = await door.request("PATCH", path, json={"description": "Tickets of the team"})
        assert changed.json()["description"] == "Tickets of the team"
        shown = (await door.request("GET", "/v1/knowledge/map")).json()["text"]
        assert "- jira_search: Jira (API), Tickets of the team" in shown
        assert [one["name"] for one in (await door.request("GET", "/v1/sources")).json()["items"]] == ["Jira"]
        assert (await door.request("DELETE", path)).status_code == 204
        assert (await door.request("GET", path)).status_code == 404


async def test_profiles_are_read_by_those_they_concern(resources: Resources) -> None:
    async with open_door(resources) as door:
        await door.request("POST", "/v1/remember_fact", key="alice", json={"content": "Alice plays chess"})
        own = (await door.request("GET", "/v1/users/alice/profile", key="alice")).json()
        assert own["content"] == "Personal: Alice plays chess." and own["facts"] == 1
        other = (await door.request("GET", "/v1/users/bob/profile", key="alice")).json()
        assert other["content"] == ""
        acting = {"Recordari-Agent": "support"}
        fact = {"content": "Refunds need a number", "scope": "agent"}
        await door.request("POST", "/v1/remember_fact", key="agent", json=fact, headers=acting)
        found = (await door.request("GET", "/v1/agents/support/profile", key="agent", headers=acting)).json()
        assert found["content"] == "Way of working: Refunds need a number."
