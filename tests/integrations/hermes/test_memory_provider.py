"""Hermes' memory slot with Recordari in it: found as a plugin and called by Hermes' own manager."""

# ruff: noqa: E402  # Hermes' own packages have to be found first

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

hermes = pytest.importorskip("agent.memory_provider", reason="tested by `make test-hermes`")
# Hermes has packages named `tools` and `plugins`; this repository has one of them, too.
sys.path.insert(0, str(Path(hermes.__file__).parents[1]))
sys.modules.pop("tools", None)

from agent.memory_manager import MemoryManager
from tests.patience import PATIENCE

from recordari.integrations.hermes import RecordariMemoryProvider
from recordari.sync import Facade

pytestmark = pytest.mark.filterwarnings("default")


def managed(memory: Facade, session: str, **more: str) -> MemoryManager:
    manager = MemoryManager(external_prefetch_timeout=PATIENCE)
    manager.add_provider(RecordariMemoryProvider(memory))
    manager.initialize_all(session_id=session, platform="cli", hermes_home=".", **more)
    return manager


def finish(manager: MemoryManager) -> None:
    assert manager.flush_pending(timeout=PATIENCE)
    manager.shutdown_all()


def test_what_is_said_in_one_session_is_known_in_the_next(waiting: Facade) -> None:
    first = managed(waiting, "one", user_id="ana")
    first.sync_all("Ana's boat is called Halcyon.", "Noted.", session_id="one")
    finish(first)
    second = managed(waiting, "two", user_id="ana")
    shown = second.prefetch_all("What is Ana's boat called?", session_id="two")
    assert "Halcyon" in shown and "[begin memory " in shown
    assert "Halcyon" not in managed(waiting, "three", user_id="bo").prefetch_all("What is Ana's boat called?")
    kept = waiting.acting_as(user="ana", agent="hermes").list_messages("one")
    assert [(str(one.role), one.content) for one in kept] == [
        ("user", "Ana's boat is called Halcyon."),
        ("assistant", "Noted."),
    ]
    helper = managed(waiting, "four", user_id="ana", agent_context="subagent")
    helper.sync_all("You are a helper. Do this.", "Done.", session_id="four")
    finish(helper)
    assert "helper" not in json.dumps([one.content for one in waiting.acting_as(user="ana").recall("helper").items])


def test_the_model_has_tools_and_hermes_own_notes_are_kept(waiting: Facade) -> None:
    manager = managed(waiting, "one", user_id="ana", agent_identity="coder")
    names = {schema["name"] for schema in manager.get_all_tool_schemas()}
    assert names == {"recordari_recall", "recordari_remember", "recordari_forget"}
    kept = json.loads(manager.handle_tool_call("recordari_remember", {"content": "Ana sails on Sundays"}))
    manager.on_memory_write("add", "user", "Ana's favourite tea is oolong")
    found = json.loads(manager.handle_tool_call("recordari_recall", {"query": "When does Ana sail?"}))["memories"]
    assert found[0]["id"] == kept["id"]
    assert json.loads(manager.handle_tool_call("recordari_forget", {"id": kept["id"]}))["forgotten"] >= 1
    assert "error" in json.loads(manager.handle_tool_call("recordari_forget", {"id": "nonsense"}))
    finish(manager)
    ana = waiting.acting_as(user="ana")
    assert any("oolong" in item.content for item in ana.recall("Which tea does Ana like?").items)


def test_hermes_finds_the_plugin_and_works_on_without_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plugin = tmp_path / "plugins" / "recordari"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(
        "from recordari import sync\n"
        "from recordari.integrations.hermes import RecordariMemoryProvider\n"
        "def register(context):\n"
        "    memory = sync.Client.open('http://127.0.0.1:9', key='rcd_x').__enter__()\n"
        "    context.register_memory_provider(RecordariMemoryProvider(memory))\n"
    )
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    from plugins.memory import load_memory_provider

    provider = load_memory_provider("recordari")
    assert provider is not None and provider.name == "recordari" and provider.is_available()
    provider.initialize("one", platform="cli", hermes_home=str(tmp_path))
    assert provider.prefetch("Anything?") == ""
    provider.sync_turn("Hello", "Hi")
    assert "error" in json.loads(provider.handle_tool_call("recordari_recall", {"query": "tea"}))
    provider.shutdown()
