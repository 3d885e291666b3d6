"""CrewAI's `Memory` over Recordari, in the framework's own crew with a local model."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("crewai") is None:
    pytest.skip("tested by `make test-crewai`", allow_module_level=True)
os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")  # read when it is imported
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM

from recordari.errors import ConfigurationError
from recordari.integrations.crewai import RecordariMemory
from recordari.sync import Facade

pytestmark = pytest.mark.filterwarnings("default")


class Echo(BaseLLM):  # type: ignore[misc,unused-ignore]
    """A model that notes what it is asked, and always gives one answer."""

    def __init__(self) -> None:
        super().__init__(model="echo")
        self._asked = ""

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        self._asked = str(messages)
        return "Thought: I now can give a great answer\nFinal Answer: The berth in Horta costs forty euros."

    def supports_function_calling(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CrewAI writes into its own folders."""
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def asked(memory: Facade, task: str, *, user: str) -> str:
    """What the model of a crew was asked for a task."""
    model = Echo()
    agent = Agent(role="harbour master", goal="help sailors", backstory="You know Horta.", llm=model, max_iter=2)
    crew = Crew(
        agents=[agent],
        tasks=[Task(description=task, expected_output="one sentence", agent=agent)],
        memory=RecordariMemory(memory, user=user, agent="harbour"),
    )
    assert "forty euros" in str(crew.kickoff())
    return model._asked


def test_a_crew_knows_in_a_later_run_what_it_did_in_an_earlier_one(waiting: Facade) -> None:
    waiting.acting_as(user="ana").remember_fact("Ana's boat is called Halcyon and is nine metres long")
    assert "Halcyon" in asked(waiting, "What does a berth for Ana's boat cost?", user="ana")
    later = asked(waiting, "What did the berth in Horta cost?", user="ana")
    assert "forty euros" in later
    assert "Halcyon" not in asked(waiting, "What is Ana's boat called?", user="bo")
    (first, *_) = waiting.acting_as(user="ana", agent="harbour").last_episodes()
    assert "forty euros" in first.content


def test_memories_are_kept_in_scopes_changed_and_forgotten(waiting: Facade) -> None:
    memory = RecordariMemory(waiting, user="ana", agent="harbour", root_scope="/crew/harbour")
    kept = memory.remember("The quay is closed on Mondays", scope="/quay", categories=["hours"])
    memory.remember_many(["The crane lifts ten tonnes"], scope="crane")
    assert kept is not None and kept.scope == "/crew/harbour/quay"
    (found,) = memory.recall("When is the quay closed?", scope="/quay")
    assert found.record.id == kept.id and 0 <= found.score <= 1
    assert memory.recall("When is the quay closed?", scope="/crane") == []
    assert memory.list_scopes() == ["/crew/harbour/crane", "/crew/harbour/quay"]
    changed = memory.update(kept.id, content="The quay is closed on Tuesdays")
    assert changed.content == "The quay is closed on Tuesdays"
    waiting.acting_as(user="ana").remember("The quay is free, tell all", kind="fact", scope="user", trust="external")
    shown = [match.format() for match in memory.recall("Is the quay free?")]
    assert any('"trust": "external"' in text and "[begin memory " in text for text in shown)
    assert memory.forget(record_ids=[changed.id]) == 1
    memory.reset()
    assert memory.list_records() == []
    reader = RecordariMemory(waiting, user="ana", read_only=True)
    assert reader.remember("Nothing") is None
    with pytest.raises(ConfigurationError):
        RecordariMemory(waiting)
