"""The verbs on the command line: remember, recall, import, reindex, reembed and jobs in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.doors.test_cli import PROGRAM, Cli, connected
from tests.patience import PATIENCE

from recordari.config import Settings
from recordari.core.items import MAX_CONTENT_BYTES

CHAT = ("--user", "ana", "--agent", "helper", "--session", "chat-1")


@pytest.fixture
def command(settings: Settings, tmp_path: Path) -> Cli:
    """Use the command line on a fresh, migrated database with the quick model."""
    return connected(settings, tmp_path, RECORDARI_EMBEDDING_PROFILE="fast")


def history(folder: Path, *items: dict[str, Any]) -> str:
    file = folder / "history.jsonl"
    file.write_text("".join(f"{json.dumps(item)}\n" for item in items))
    return str(file)


def message(number: int, **more: Any) -> dict[str, Any]:
    return {"content": f"message {number}", "source_ref": f"m{number}", "session_id": "chat-1", **more}


def test_what_is_remembered_is_recalled_by_meaning_in_the_next_process(command: Cli) -> None:
    out, _ = command.run("remember", "The puppy chewed my slippers", *CHAT, "--speaker", "Ana")
    assert out.endswith("  new\n")
    shown, note = command.run("recall", "dog", *CHAT, "--explain")
    assert "Ana: The puppy chewed my slippers" in shown
    assert out.split()[0] in shown  # by its id it can be forgotten or corrected
    assert "vector 1" in shown
    assert "█" in shown and "meaning 0." in shown, "the score as a bar of its parts"
    assert "not embedded" not in note
    assert "scopes: " in note and "1 by vector" in note and "rerank: none is set up" in note
    assert command.run("recall", "dog", "--session", "chat-2") == ("", "nothing is known about that\n")


def test_what_is_said_in_no_session_is_a_fact(command: Cli) -> None:
    command.run("remember", "Ana likes jazz", "--user", "ana")
    command.run("remember", "Hello there", *CHAT)
    kinds = {item["content"]: item["source_kind"] for item in command.json("recall", "jazz hello", *CHAT)["items"]}
    assert kinds == {"Ana likes jazz": "fact", "Hello there": "chat_message"}


def test_a_narrow_terminal_folds_texts_and_breaks_no_id(command: Cli) -> None:
    made = command.json("remember", "Ana likes jazz, and above all long evenings of it with friends", "--user", "ana")
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "wb", buffering=0) as terminal:
        narrow = {**command.environment, "COLUMNS": "60", "TERM": "xterm"}
        subprocess.run([PROGRAM, "facts", "list"], env=narrow, stdout=terminal, check=True, timeout=PATIENCE)
        shown = screen.read(10_000).decode().splitlines()
    (line,) = [line for line in shown if made["id"] in line]
    assert "Ana likes jazz" in line
    assert "friends" in shown[-1] and shown[-1] != line


def test_a_table_in_a_pipe_has_one_line_for_each_and_no_padding(command: Cli) -> None:
    command.run("remember", "Ana likes jazz", "--user", "ana")
    command.run("remember", "Ana plays the cello in two orchestras", "--user", "ana")
    lines = command.run("facts", "list")[0].splitlines()
    assert len(lines) == 3
    assert all(line == line.rstrip() for line in lines)


def test_the_same_key_is_the_same_item(command: Cli) -> None:
    arguments = ("--kind", "tool_output", "--source-ref", "call-1", "--event-time", "2026-05-02T14:23:01Z", *CHAT)
    first = command.json("remember", "42 orders", *arguments)
    again = command.json("remember", "42 orders", *arguments)
    assert (first["was_new"], again["was_new"]) == (True, False)
    assert first["id"] == again["id"]
    (item,) = command.json("recall", "orders", *CHAT)["items"]
    assert item["event_time"] == "2026-05-02T14:23:01+00:00"
    _, err = command.run("remember", "43 orders", *arguments, code=1)
    assert "use another one" in err


def test_a_large_text_from_standard_input_is_printed_whole_again(command: Cli) -> None:
    body = "".join(f"row {number}\n" for number in range(MAX_CONTENT_BYTES))
    kept = subprocess.run(
        [PROGRAM, "remember", "-", "--kind", "tool_output", *CHAT, "--json"],
        input=body,
        env=command.environment,
        cwd=command.folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    key = json.loads(kept.stdout)["payload_key"]
    assert command.run("read-tool-output", key)[0] == body
    part = command.json("read-tool-output", key, "--start", "4", "--length", "3")
    assert (part["content"], part["is_whole"], part["next_start"]) == ("0\nr", False, 7)
    assert "--start 7 goes on" in command.run("read-tool-output", key, "--length", "7")[1]


def test_a_context_is_printed_with_what_it_costs(command: Cli) -> None:
    command.run("remember", "Ana prefers tea", "--kind", "fact", *CHAT)
    out, note = command.run("context", "What does Ana prefer?", *CHAT, "--budget", "900", "--explain")
    assert '"text": "Ana prefers tea"' in out and "[begin memory " in out
    assert " of 900 tokens" in note and "temporal: the question has no time in it" in note
    shown = command.json("context", "What does Ana prefer?", *CHAT, "--render", "messages")
    assert shown["messages"][0]["role"] == "user" and shown["tokens"] <= shown["budget"] == 4_000
    _, error = command.run("context", "What?", "--profile", "nonsense", code=1)
    assert "router, stable" in error


def test_text_of_others_cannot_act_on_the_terminal(command: Cli) -> None:
    evil = "red \x1b[31malert\x07 \u202eend"
    command.run("remember", evil, "--kind", "tool_output", *CHAT)
    for arguments in (("recall", "alert", *CHAT), ("recall", "alert", *CHAT, "--json")):
        out, _ = command.run(*arguments)
        assert "alert" in out
        assert not set(out) & {"\x1b", "\x07", "\u202e"}
    assert "red \x1b[31malert\x07" in command.json("recall", "alert", *CHAT)["items"][0]["content"]


def test_wrong_use_says_what_is_right(command: Cli) -> None:
    assert "needs a user" in command.run("recall", "anything", "--scope", "user", code=1)[1]
    assert "--user" in command.run("remember", "of nobody", code=1)[1]
    assert "--session" in command.run("remember", "said nowhere", "--kind", "chat_message", code=1)[1]
    assert "name --user" in command.run("recall", "anything")[1]
    assert "between 1 and 50" in command.run("recall", "anything", "--top-k", "51", code=1)[1]
    assert "time zone" in command.run("recall", "x", "--since", "2026-05-02T14:23:01", code=1)[1]
    assert "ISO 8601" in command.run("recall", "x", "--since", "yesterday", code=2)[1]
    assert "tenant create" in command.run("recall", "x", "--tenant", "nobody", code=1)[1]
    assert "such tool output" in command.run("read-tool-output", "tout_nothing", code=1)[1]


def test_an_import_goes_on_where_it_stopped_and_names_a_bad_line(command: Cli, tmp_path: Path) -> None:
    bad = history(tmp_path, message(1), message(2), message(3, kind="rumour"), message(4))
    _, err = command.run("import", bad, "--user", "ana", code=1)
    assert "line 3: kind:" in err
    good = history(tmp_path, *(message(number) for number in range(1, 5)))
    summary = command.json("import", good, "--user", "ana")
    assert summary == {"read": 4, "new": 2, "existing": 2, "waiting": 0}
    out, _ = command.run("import", good, "--user", "ana")
    assert out == "4 items read, 0 new, 4 here already\n"
    taken = history(tmp_path, message(1), message(2, content="another text"))
    assert "line 2: source_ref" in command.run("import", taken, "--user", "ana", code=1)[1]
    assert "cannot read" in command.run("import", "nowhere.jsonl", code=1)[1]


def test_everything_derived_can_be_derived_again(command: Cli) -> None:
    command.run("remember", "The puppy chewed my slippers", *CHAT)
    assert command.json("reindex") == {"items": 1, "waiting": 0}
    moved = command.json("reembed", "--model", "potion-base-8M")
    assert (moved["done"], moved["total"], moved["switched"]) == (1, 1, True)
    stats = command.json("stats")
    assert stats["embedding_model"] == moved["model_id"] and stats["reembedding"] is None
    assert "models list" in command.run("reembed", "--model", "no-such", code=1)[1]
    assert command.json("recall", "dog", *CHAT)["total"] == 1


def test_jobs_and_dead_letters_are_listed(command: Cli) -> None:
    assert command.json("jobs", "list") == []
    assert command.run("jobs", "dead") == ("", "nothing was given up\n")
    assert command.json("jobs", "replay", "--all") == {"replayed": 0}
    assert "no such dead letter" in command.run("jobs", "replay", "job:17", code=1)[1]
    assert "no such dead letter" in command.run("jobs", "discard", "job:17", "--yes", code=1)[1]
    command.run("jobs", "replay", code=2)


def test_proposals_are_decided_and_memories_shared_on_the_command_line(command: Cli) -> None:
    for name in ("sales", "support"):
        command.run("tenant", "create", name)
        command.run("org", "add", "acme", name)
    fact = ("--kind", "fact", "--scope", "tenant", "--tenant", "sales")
    kept = command.json("remember", "The Harbour Project ships on 14 May", *fact)["id"]
    (given,) = command.json("share", "give", kept, "support", "--tenant", "sales")
    assert (given["tenant"], given["delivered"]) == ("support", False)
    assert command.json("share", "accept", "sales", "--tenant", "support")["items"] == 1
    assert "Harbour" in command.run("recall", "when does Harbour ship", "--tenant", "support")[0]
    command.run("share", "withdraw", kept, "--tenant", "sales")
    assert command.run("recall", "when does Harbour ship", "--tenant", "support")[0] == ""
    command.run("facts", "feedback", kept, "wrong", "--tenant", "sales")
    assert command.json("proposals", "review", "--tenant", "sales")["proposed"] == 1
    (proposal,) = command.json("proposals", "list", "--tenant", "sales")
    for arguments in (("list",), ("show", proposal["proposal_id"])):
        printed = " ".join(command.run("proposals", *arguments, "--tenant", "sales")[0].split())
        assert "UUID(" not in printed and "The Harbour Project" in printed and "marked it as wrong" in printed
    accepted = command.json("proposals", "accept", proposal["proposal_id"], "--tenant", "sales")
    assert accepted["status"] == "accepted"
    undone = command.json("proposals", "undo", proposal["proposal_id"], "--tenant", "sales")
    assert undone["status"] == "undone"
    assert command.json("proposals", "policy", "--accept", "merge", "--tenant", "sales") == {"accept": ["merge"]}


def test_workflows_are_saved_chosen_rewarded_and_retired_on_the_command_line(command: Cli) -> None:
    task = ("sdr", "first_email")
    assert command.run("workflows", "list")[1] == "there is no workflow; `recordari workflows save` keeps one\n"
    assert "JSON" in command.run("workflows", "save", *task, "short", "{tone", code=2)[1]
    first = command.json("workflows", "save", *task, "short", '{"tone": "dry"}')
    assert first["was_new"] and first["workflow"]["spec"] == {"tone": "dry"}
    second = command.json("workflows", "save", *task, "short", '{"tone": "warm"}')["workflow"]
    choice = command.json("workflows", "choose", *task)
    assert (choice["workflow"]["version"], choice["candidates"]) == (2, 1)
    assert command.json("workflows", "reward", choice["choice_id"], "0.75")["workflow"]["alpha"] == 1.75
    assert "0.583" in command.run("workflows", "list")[0], "the mean of Beta(1.75, 1.25)"
    drawn = command.run("workflows", "plot", *task)[0].splitlines()
    assert drawn[0] == "short, version 2: 1 reward, mean 0.58, 95 % between 0.10 and 0.97"
    assert "█" in drawn[4] and drawn[-1].split() == ["0", "worth", "1"]
    assert command.json("workflows", "plot", *task)[0]["mean"] == pytest.approx(1.75 / 3)
    assert [one["version"] for one in command.json("workflows", "history", *task, "short")] == [2, 1]
    assert "first_email" in command.run("workflows", "retire", second["workflow_id"], "--reason", "too long")[0]
    assert command.json("workflows", "list") == []
    assert len(command.json("workflows", "list", "--also-ended")) == 2
    assert "save one first" in command.run("workflows", "choose", *task, code=1)[1]
