"""The hook program, called as a host calls it: what it shows, what it keeps, and that it harms nothing."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.hosts.serving import Workbench, serving, workbench
from tests.patience import PATIENCE
from tests.ports import free_port

from recordari import hosts
from recordari.core.items import Kind
from recordari.hosts import install
from recordari.hosts.rules.capture import marks_of, without
from recordari.hosts.rules.hosts import HostName
from recordari.kit.resources import Resources

ANSWER = "Staging uses port 6433. I have changed the deploy script."


@pytest.fixture
async def bench(resources: Resources, tmp_path: Path) -> AsyncIterator[Workbench]:
    yield await workbench(resources, tmp_path)


class Claude:
    """Claude Code, as its hooks see it."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        hooks = json.loads((bench.home / ".claude/settings.json").read_text())["hooks"]
        self.lines = {event: groups[-1]["hooks"][0]["command"] for event, groups in hooks.items()}

    async def event(self, event: str, session: str, **given: object) -> str | None:
        answer = await self.bench.call(self.lines[event], session_id=session, hook_event_name=event, **given)
        if not answer:
            return None
        assert answer["hookSpecificOutput"]["hookEventName"] == event
        context = answer["hookSpecificOutput"]["additionalContext"]
        assert isinstance(context, str)
        return context


def served(bench: Workbench) -> str:
    return f"http://127.0.0.1:{bench.resources.settings.port}"


async def said(bench: Workbench, session: str) -> list[tuple[str, str]]:
    return [(message.said_by, message.content) for message in await bench.memory.list_messages(session)]


async def test_a_fact_of_one_session_is_in_the_next_and_nothing_comes_back_as_new(bench: Workbench) -> None:
    async with serving(bench.resources):
        await bench.install(host=HostName.CLAUDE_CODE)
        claude = Claude(bench)
        assert await claude.event("SessionStart", "one", source="startup") is None, "nothing is known yet"
        told = "Our staging database listens on port 6433. My token is ghp_" + "a1B2c3D4" * 4 + "Zz9y."
        await claude.event("UserPromptSubmit", "one", prompt=told)
        edit = {"tool_name": "Edit", "tool_input": {"file_path": str(bench.project / "deploy.sh")}, "tool_response": {}}
        await claude.event("PostToolUse", "one", **edit)
        shell = {"tool_name": "Bash", "tool_input": {"command": "make test"}, "tool_response": {"stdout": "3 passed"}}
        await claude.event("PostToolUse", "one", **shell)
        await claude.event("Stop", "one", last_assistant_message="I have changed the deploy script.")
        await claude.event("SessionEnd", "one", reason="exit")
        kept = await said(bench, "one")
        assert [who for who, _ in kept] == ["user", "Bash", "assistant", "files"]
        assert "[SECRET]" in kept[0][1] and "ghp_" not in str(kept)
        assert "3 passed" in kept[1][1] and kept[3][1] == "Changed files: deploy.sh"

        context = await claude.event("SessionStart", "two", source="startup")
        assert context is not None and "port 6433" in context and "deploy.sh" in context
        # The model repeats its context, tools show memory, and a person pastes it.
        await claude.event("UserPromptSubmit", "two", prompt=f"Look:\n{context}\nWhich port was it?")
        memory = {"tool_name": "mcp__recordari__recall", "tool_input": {}}
        recalled = json.dumps({"items": [{"content": "The office in Lisbon has three meeting rooms."}]})
        await claude.event("PostToolUse", "two", **memory, tool_response=recalled)
        repeated = (
            "Our staging database listens on port 6433.\nThe office in Lisbon has three meeting rooms. Shall I go on?"
        )
        await claude.event("Stop", "two", last_assistant_message=repeated)
        shown = {"stdout": "The lift in Porto has been broken since Easter."}
        for command in (
            "cd x && .venv/bin/recordari recall 'Which lift?'",
            f"curl -s {served(bench)}/v1/recall -d '{{}}'",
        ):
            asked = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": shown}
            await claude.event("PostToolUse", "two", **asked)
        await claude.event(
            "Stop", "two", last_assistant_message="- **The lift in Porto has been broken since Easter.**"
        )
        kept = await said(bench, "two")
        assert [text.split() for _, text in kept] == [
            ["Look:", "Which", "port", "was", "it?"],
            ["Shall", "I", "go", "on?"],
        ]


async def test_memory_that_is_shown_and_repeated_in_31_sessions_is_kept_once(bench: Workbench) -> None:
    async with serving(bench.resources):
        await bench.install(host=HostName.CLAUDE_CODE)
        claude = Claude(bench)
        await claude.event("UserPromptSubmit", "first", prompt="Our staging database listens on port 6433.")

        async def copies() -> list[str]:
            found = (await bench.memory.list_items(limit=200)).items
            return [item.content for item in found if "6433" in item.content and item.kind is Kind.CHAT_MESSAGE]

        for number in range(31):
            context = await claude.event("SessionStart", f"later-{number}", source="startup")
            assert context is not None and "port 6433" in context
            await claude.event("Stop", f"later-{number}", last_assistant_message=context)
        assert await copies() == ["Our staging database listens on port 6433."]


def test_what_is_left_out_leaves_no_gap() -> None:
    known = marks_of("Our staging database listens on port 6433. The office in Lisbon has three rooms.")
    told = (
        "I see.\n\nOur staging database listens on port 6433. The office in Lisbon has three rooms.\n\nShall I go on?\n"
    )
    assert without(told, known) == "I see.\n\nShall I go on?"
    assert without(told, []) == told, "nothing else is touched"


SHOWN = [
    "Our staging database listens on port 6433. Ana likes tea.",
    "When the nightly build fails because the runner has no disk left, ask Marta in the platform team to clear the cache.",
    "安娜喜欢喝茶，不加糖。她住在里斯本的老城区。",
]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ('You said "our staging database listens on port 6433", so I use 6434.', 'You said "…", so I use 6434.'),
        ("1. (2026-11-17, user) **Our staging database** listens on port 6433", "1. (2026-11-17, user) **…"),
        (
            "I found that the runner has no disk left, ask Marta in the platform team to clear the cache now.",
            "I found that the runner has no … now.",
        ),
        (
            "Well: Ana likes tea.\nAna likes tea.",
            "Well: Ana likes tea.",
        ),  # too short to be a quotation inside another sentence
        ("我记得：安娜喜欢喝茶，不加糖。好的。", "我记得：…。好的。"),
        ("I moved the staging database to another host.", "I moved the staging database to another host."),
        ("<hook_context>Shown: tea, and\nmore. </hook_context>\n\nWhich port is it?", "Which port is it?"),
        ("Ana likes tea.", "Ana likes tea."),  # an answer of few words is said anew
    ],
)
def test_a_quotation_inside_other_words_is_left_out_and_the_words_stay(said: str, kept: str) -> None:
    assert without(said, [mark for text in SHOWN for mark in marks_of(text)]) == kept


async def test_tools_that_run_at_once_lose_nothing_and_odd_texts_are_kept(bench: Workbench) -> None:
    async with serving(bench.resources):
        await bench.install(host=HostName.CLAUDE_CODE)
        claude = Claude(bench)
        await claude.event("SessionStart", "one", source="startup")
        names = [f"part-{number}.py" for number in range(6)]
        await asyncio.gather(
            *(
                claude.event(
                    "PostToolUse",
                    "one",
                    cwd=str(bench.project / "src"),
                    tool_name="Write",
                    tool_input={"file_path": name},
                    tool_response={},
                )
                for name in names
            )
        )
        asked = f"curl -s http://localhost:{bench.resources.settings.port}/v1/recall"
        recalled = {"tool_name": "Bash", "tool_input": {"command": asked}}
        await claude.event("PostToolUse", "one", **recalled, tool_response={"stdout": "The lift in Porto is broken."})
        await claude.event(
            "Stop", "one", last_assistant_message="The lift in Porto is broken. Half \ud83d of a \0 sign."
        )
        key = (
            "-----BEGIN PRIVATE KEY-----\n"
            + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n" * 20
            + "-----END PRIVATE KEY-----"
        )
        long = "line of a log\n" * 560 + key + "\nline of a log" * 900
        shell = {"tool_name": "Bash", "tool_input": {"command": "cat log"}, "tool_response": {"stdout": long}}
        await claude.event("PostToolUse", "one", **shell)
        kept = await said(bench, "one")
        assert kept[0] == ("assistant", "Half � of a  sign.")
        assert {*kept[1][1].removeprefix("Changed files: ").split(", ")} == {f"src/{name}" for name in names}
        assert "line of a log" in kept[2][1] and "MIIE" not in kept[2][1], "a key that the cut would halve"


async def test_other_projects_and_users_see_nothing_of_it(bench: Workbench) -> None:
    async with serving(bench.resources):
        await bench.install(host=HostName.CLAUDE_CODE, prompts=True)
        claude = Claude(bench)
        await claude.event("UserPromptSubmit", "one", prompt="We deploy atlas with kamal, never by hand.")
        other = bench.project.parent / "borealis"
        (other / ".git").mkdir(parents=True)
        assert await claude.event("SessionStart", "three", cwd=str(other)) is None
        # Asked for, it is found from anywhere: a project is preferred, and no wall.
        await claude.event("UserPromptSubmit", "three", cwd=str(other), prompt="Good morning to you all.")
        found = await claude.event("UserPromptSubmit", "three", cwd=str(other), prompt="How do we deploy atlas?")
        assert found is not None and "kamal" in found
        (bench.project / ".recordariignore").write_text("# private\n*\n")
        await claude.event("UserPromptSubmit", "four", prompt="The launch code is heliotrope.")
        (bench.project / ".recordariignore").write_bytes(b"secrets/\n\xff\xfe\n")  # nobody can say what it means
        await claude.event("UserPromptSubmit", "four", prompt="The launch code is heliotrope.")
        plain = bench.project.parent / "plain"  # no repository: the file marks the project
        (plain / "inside").mkdir(parents=True)
        (plain / ".recordariignore").write_text("*\n")
        await claude.event("UserPromptSubmit", "four", cwd=str(plain / "inside"), prompt="It is heliotrope.")
        assert not [one for one in await bench.memory.list_sessions() if one.session_id == "four"]


async def test_ignored_files_and_pauses_are_kept_to(bench: Workbench) -> None:
    async with serving(bench.resources):
        await bench.install(host=HostName.CLAUDE_CODE)
        claude = Claude(bench)
        (bench.project / ".recordariignore").write_text("secrets/\n*.pem\n**/local.json\n/build/out\n")
        shell = {"tool_name": "Bash", "tool_response": {"stdout": "a very private thing"}}
        for command in (
            "cat secrets/plan.txt",
            "wc<./secrets/plan.txt",
            "jq . 'conf/local.json'",
            "cat /x/build/out/log",
        ):
            await claude.event("PostToolUse", "one", **shell, tool_input={"command": command})
        for name in ("secrets/plan.txt", "keys/site.pem", "readme.md"):
            edit = {"tool_name": "Write", "tool_input": {"file_path": name}}
            await claude.event("PostToolUse", "one", **edit, tool_response={})
        install.set_paused(bench.resources.settings, paused=True)
        assert await claude.event("UserPromptSubmit", "one", prompt="This stays between us.") is None
        assert install.status(bench.resources.settings).paused
        install.set_paused(bench.resources.settings, paused=False)
        await claude.event("Stop", "one", last_assistant_message="Done.")
        assert await said(bench, "one") == [("assistant", "Done."), ("files", "Changed files: readme.md")]


async def test_without_a_server_nothing_breaks_and_nothing_is_lost(bench: Workbench) -> None:
    await bench.install(host=HostName.CLAUDE_CODE)
    claude = Claude(bench)
    assert await claude.event("SessionStart", "one") is None
    await claude.event(
        "UserPromptSubmit", "one", prompt="The canary build goes out on Thursdays. key: AKIA" + "Q7W3" * 4
    )
    await claude.event("Stop", "one", last_assistant_message="Noted.")
    status = install.status(bench.resources.settings)
    assert status.waiting == 2 and "not running" in status.server
    assert (status.hosts[0].away, status.hosts[0].failed) == (3, 0)
    waiting = "".join(file.read_text() for file in (Path(status.folder) / "waiting").iterdir())
    assert "canary" in waiting and "AKIA" not in waiting, "secrets are masked before they are on the disk"
    async with serving(bench.resources):
        context = await claude.event("UserPromptSubmit", "two", prompt="Good morning")
        assert [who for who, _ in await said(bench, "one")] == ["user", "assistant"]
        assert context is not None and "Thursdays" in context, "the first prompt brings what the start could not"
        assert install.status(bench.resources.settings).waiting == 0
        await claude.event("Stop", "two", last_assistant_message="")
    assert await claude.event("PostToolUse", "two", tool_name=["odd"], tool_input="odd", tool_response=7) is None


async def test_what_waits_is_sent_by_the_host_that_kept_it_with_the_time_it_was_said(bench: Workbench) -> None:
    await bench.install(host=HostName.CLAUDE_CODE)
    claude = Claude(bench)
    began = datetime.now(UTC)
    await claude.event("UserPromptSubmit", "one", prompt="Ana's canary goes out on Thursdays.")
    await bench.install(host=HostName.CURSOR, user="bob")
    hooks = json.loads((bench.home / ".cursor/hooks.json").read_text())["hooks"]
    await asyncio.sleep(1.1)  # more than the precision of the time that is kept
    async with serving(bench.resources):
        sent = datetime.now(UTC)
        await bench.call(hooks["sessionStart"][0]["command"], conversation_id="two")
        assert install.status(bench.resources.settings).waiting == 1, "it is not Bob's"
        await claude.event("SessionStart", "three", source="startup")
        assert install.status(bench.resources.settings).waiting == 0
        (message,) = await bench.memory.list_messages("one")
        assert began - timedelta(seconds=1) <= message.event_time < sent - timedelta(milliseconds=50)


async def test_each_host_is_answered_in_its_own_form(bench: Workbench) -> None:
    async with serving(bench.resources):
        for host, file, event, name in (
            (HostName.CODEX, ".codex/hooks.json", "SessionStart", "session_id"),
            (HostName.GEMINI_CLI, ".gemini/settings.json", "SessionStart", "session_id"),
            (HostName.CURSOR, ".cursor/hooks.json", "sessionStart", "conversation_id"),
        ):
            await bench.install(host=host)
            hooks = json.loads((bench.home / file).read_text())["hooks"]
            lines = {event: (groups[-1].get("hooks") or groups)[0]["command"] for event, groups in hooks.items()}
            prompt = next(
                event for event in ("UserPromptSubmit", "BeforeAgent", "beforeSubmitPrompt") if event in lines
            )
            await bench.call(lines[prompt], **{name: f"{host} 1"}, prompt=f"The linter of {host} is called ruff.")
            answer = await bench.call(lines[event], **{name: f"{host} 2"}, hook_event_name=event)
            shown = (
                answer["additional_context"]
                if host is HostName.CURSOR
                else answer["hookSpecificOutput"]["additionalContext"]
            )
            assert f"The linter of {host} is called ruff." in shown


WAITS = """
import os, sys, time
open(sys.argv[1], "a").write("x")
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
"""


def test_a_server_that_died_is_started_again_at_once_and_one_that_is_slow_is_not(tmp_path: Path) -> None:
    runs, file, port = tmp_path / "runs", tmp_path / "claude-code.json", free_port()
    place = {"folder": str(tmp_path), "environment": {}, "host": "127.0.0.1", "port": port, "key": "rcd_none"}
    settings = {**place, "agent": "claude-code", "answers": "context", "budget": 200, "seconds": 0.2}
    event = json.dumps({"session_id": "one", "cwd": str(tmp_path), "prompt": "Hello"}).encode()

    def call(until: str) -> None:
        """A hook whose server lives until there is a file of that name."""
        start = [sys.executable, "-c", WAITS, str(runs), str(tmp_path / until), "recordari serve"]
        file.write_text(json.dumps({**settings, "start": start}))
        subprocess.run([sys.executable, "-I", "-S", hosts.__file__, str(file), "prompt"], input=event, check=True)

    def wait_until(reached: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not reached():
            assert time.monotonic() < ends
            time.sleep(0.02)

    call("first")
    wait_until(runs.exists)
    os.utime(tmp_path / "starting", (1, 1))  # long ago
    call("first")  # it is still starting, and takes its time
    with socket.create_server(("127.0.0.1", port)):
        call("first")  # it listens, and does not answer in time
    assert runs.read_text() == "x"
    line = Path("/proc") / (tmp_path / "server.pid").read_text().split()[0] / "cmdline"
    (tmp_path / "first").touch()
    wait_until(lambda: not line.exists() or not line.read_bytes())
    call("second")
    wait_until(lambda: runs.read_text() == "xx")
    (tmp_path / "second").touch()
    outcomes = [json.loads(each)["outcome"] for each in (tmp_path / "hook.log").read_text().splitlines()]
    assert ["refused" in each.lower() for each in outcomes] == [True, True, False, True], outcomes
