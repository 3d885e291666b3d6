"""mem0's own client, from PyPI, against our server, unchanged."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ["MEM0_TELEMETRY"] = "False"
pytest.importorskip("mem0", reason="mem0's client is tested by `make test-mem0`")

from mem0 import AsyncMemoryClient, MemoryClient
from mem0.exceptions import AuthenticationError, MemoryNotFoundError
from tests.integrations.conftest import served

from recordari import sync
from recordari.config import Settings

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def admin_key(settings: Settings) -> str:
    with sync.Memory.open(settings=settings, tenant="test", worker=False) as memory:
        text: str = memory.create_key("admin", role="admin").key
        return text


@pytest.fixture
def address(settings: Settings) -> Iterator[str]:
    with served(settings) as url:
        yield url


@pytest.fixture
def client(address: str, key: str) -> Iterator[Any]:
    made = MemoryClient(api_key=key, host=address)
    yield made
    made.client.close()


def of(user: str, **more: Any) -> dict[str, Any]:
    return {"filters": {"user_id": user}, **more}


def texts(answer: dict[str, Any]) -> list[str]:
    return sorted(one["memory"] for one in answer["results"])


def test_memories_are_added_searched_listed_and_belong_to_their_user(client: Any) -> None:
    added = client.add(
        [
            {"role": "user", "content": "I moved to Lisbon last year. I prefer green tea."},
            {"role": "assistant", "content": "Noted!"},
        ],
        user_id="ana",
        metadata={"topic": "life"},
    )
    assert added["results"]
    assert {one["event"] for one in added["results"]} == {"ADD"}
    client.add("Bo likes coffee", user_id="bo")
    found = client.search("Which tea does she prefer?", **of("ana"))
    assert "tea" in found["results"][0]["memory"]
    assert found["results"][0]["user_id"] == "ana"
    assert found["results"][0]["score"] > 0
    assert all("coffee" not in one["memory"] for one in found["results"])
    listed = client.get_all(**of("ana"))
    assert listed["count"] == len(listed["results"]) == len(added["results"])
    assert listed["results"][0]["metadata"]["topic"] == "life"
    assert {one["id"] for one in listed["results"]} == {one["id"] for one in added["results"]}
    again = client.add("I prefer green tea.", user_id="ana", infer=False)
    assert client.search("tea", **of("ana", top_k=1))["results"][0]["memory"]
    assert len(again["results"]) == 1


def test_a_memory_is_read_updated_with_its_history_and_deleted(client: Any) -> None:
    (made,) = client.add("Ana lives in Porto", user_id="ana", infer=False)["results"]
    assert client.get(made["id"])["memory"] == "Ana lives in Porto"
    updated = client.update(made["id"], text="Ana lives in Lisbon")
    assert (updated["id"], updated["memory"]) == (made["id"], "Ana lives in Lisbon")
    assert client.get(made["id"])["memory"] == "Ana lives in Lisbon"
    assert texts(client.get_all(**of("ana"))) == ["Ana lives in Lisbon"]
    history = client.history(made["id"])
    assert [(one["event"], one["old_memory"], one["new_memory"]) for one in history] == [
        ("ADD", None, "Ana lives in Porto"),
        ("UPDATE", "Ana lives in Porto", "Ana lives in Lisbon"),
    ]
    assert client.feedback(made["id"], "POSITIVE")["feedback"] == "POSITIVE"
    assert client.delete(made["id"])["message"]
    with pytest.raises(MemoryNotFoundError):
        client.get(made["id"])
    assert texts(client.get_all(**of("ana"))) == []


def test_many_are_changed_at_once_and_all_of_one_owner_deleted(client: Any) -> None:
    made = [client.add(f"Fact number {n} of Ana", user_id="ana", infer=False)["results"][0]["id"] for n in range(4)]
    client.add("Bo likes coffee", user_id="bo", infer=False)
    client.add("Ask before you book", agent_id="planner", infer=False)
    client.batch_update([{"memory_id": made[0], "text": "Another fact"}, {"memory_id": made[1], "text": "One more"}])
    assert "Another fact" in texts(client.get_all(**of("ana")))
    client.batch_delete([{"memory_id": made[0]}, {"memory_id": made[2]}])
    assert texts(client.get_all(**of("ana"))) == ["Fact number 3 of Ana", "One more"]
    page = client.get_all(**of("ana", page=2, page_size=1))
    assert (page["count"], len(page["results"]), page["next"]) == (2, 1, None)
    client.delete_all(user_id="ana")
    assert client.get_all(**of("ana"))["count"] == 0
    assert texts(client.get_all(filters={"OR": [{"user_id": "bo"}, {"agent_id": "planner"}]})) == [
        "Ask before you book",
        "Bo likes coffee",
    ]
    client.delete_all(filters={"user_id": "bo"})
    assert client.get_all(**of("bo"))["count"] == 0
    with pytest.raises(Exception, match="whose memories"):
        client.delete_all()


def test_filters_look_into_metadata_and_runs(client: Any) -> None:
    client.add("Likes trains", user_id="ana", run_id="trip-1", metadata={"topic": "travel", "n": 3}, infer=False)
    client.add("Likes soup", user_id="ana", run_id="trip-2", metadata={"topic": "food", "n": 5}, infer=False)
    client.add("Old offer", user_id="ana", expiration_date="2020-01-01", infer=False)
    for more, expected in (
        ({"metadata": {"topic": "food"}}, ["Likes soup"]),
        ({"run_id": "trip-1"}, ["Likes trains"]),
        ({"n": {"gte": 3, "lt": 5}}, ["Likes trains"]),
        ({"NOT": [{"topic": "food"}]}, ["Likes trains"]),
        ({"topic": {"in": ["food", "travel"]}}, ["Likes soup", "Likes trains"]),
    ):
        assert texts(client.get_all(filters={"AND": [{"user_id": "ana"}, more]})) == expected, more
    assert "Old offer" in texts(client.get_all(**of("ana", show_expired=True)))
    assert texts(client.search("likes", filters={"user_id": "ana", "run_id": "trip-2"})) == ["Likes soup"]


def test_an_administrators_client_lists_and_erases_users(address: str, admin_key: str) -> None:
    client = MemoryClient(api_key=admin_key, host=address)
    try:
        client.add("Ana likes tea", user_id="ana")
        client.add("Bo likes coffee", user_id="bo")
        assert {one["name"] for one in client.users()["results"]} == {"ana", "bo"}
        assert texts(client.get_all(**of("ana"))) == ["Ana likes tea"]
        client.delete_users(user_id="ana")
        assert {one["name"] for one in client.users()["results"]} == {"bo"}
        assert client.get_all(**of("ana"))["count"] == 0
    finally:
        client.client.close()


def test_a_wrong_key_and_a_foreign_memory_are_refused(address: str, client: Any, settings: Settings) -> None:
    with pytest.raises(ValueError, match="credential"):
        MemoryClient(api_key="rcd_nonsense", host=address)
    (made,) = client.add("Ana lives in Porto", user_id="ana", infer=False)["results"]
    with sync.Memory.open(settings=settings, tenant="elsewhere", worker=False) as other:
        foreign_key = other.create_key("agent").key
    with sync.Memory.open(settings=settings, tenant="test", worker=False) as ours:
        bound_key = ours.create_key("bo", user_id="bo").key
    for other_key in (foreign_key, bound_key):
        other_client = MemoryClient(api_key=other_key, host=address)
        for call in (other_client.get, other_client.delete, other_client.history):
            with pytest.raises(MemoryNotFoundError):
                call(made["id"])
        with pytest.raises((MemoryNotFoundError, AuthenticationError)):
            other_client.update(made["id"], text="mine now")
        other_client.client.close()
    assert client.get(made["id"])["memory"] == "Ana lives in Porto"


def test_the_async_client_works_too(address: str, key: str) -> None:
    async def scenario() -> list[str]:
        async with AsyncMemoryClient(api_key=key, host=address) as client:
            await client.add("Ana likes tea", user_id="ana", infer=False)
            return texts(await client.search("tea", filters={"user_id": "ana"}))

    assert asyncio.run(scenario()) == ["Ana likes tea"]
