"""Every verb of the library has a door: a REST route, a command where a person needs one, and a line in the docs."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import typer
from fastapi.routing import APIRoute

import recordari
from recordari.app import Memory
from recordari.doors.cli import main
from recordari.routes import ROUTERS

DOCS = Path(recordari.__file__).parents[2] / "docs"
NO_VERBS = {"open", "bound", "acting_as", "caller"}  # they bind a memory to who asks
VERBS = sorted(
    name for name, _ in inspect.getmembers(Memory, inspect.isfunction) if name[0] != "_" and name not in NO_VERBS
)

REST_BY_ANOTHER_NAME = {
    "erase_user": ("start_erasing_user", "a request does not wait for it; the library's own call does"),
    "follow_events": ("list_events", "the same address, as a stream"),
    "profile": ("user_profile", "one address for users, another for agents"),
}
NO_ROUTE = {
    "reembed": "a request does not wait for it: start_reembed",
    "reindex": "a request does not wait for it: start_reindex",
    "sync_source": "a request does not wait for it: start_sync",
    "import_foreign": "`recordari import --from` reads the file; `POST /v1/import` takes items",
    "collect_objects": "a job, which `enqueue_job` starts",
}


COMMANDS = {
    "remember": "remember",
    "remember_fact": "remember",
    "recall": "recall",
    "ask": "ask",
    "read_tool_output": "read-tool-output",
    "import_items": "import",
    "import_foreign": "import",
    "get_context": "context",
    "import_export": "import",
    "export": "export",
    "forget": "forget",
    "erase_user": "erase",
    "delete_agent": "erase-agent",
    "memory_stats": "stats",
    "quota_usage": "stats",
    "reindex": "reindex",
    "reembed": "reembed",
    "list_items": "facts list",
    "item_history": "facts history",
    "item_provenance": "facts provenance",
    "edit_item": "facts edit",
    "invalidate_item": "facts invalidate",
    "restore_item": "facts restore",
    "list_rulings": "facts rulings",
    "preview_facts": "facts preview",
    "undo_ruling": "facts undo",
    "pin_item": "facts pin",
    "give_feedback": "facts feedback",
    "get_retention_policy": "policy show",
    "set_retention_policy": "policy set",
    "sweep": "policy sweep",
    "decay": "policy decay",
    "hold": "policy hold",
    "release": "policy release",
    "list_holds": "policy holds",
    "item_forecast": "policy forecast",
    "protect_source": "policy protect",
    "unprotect_source": "policy unprotect",
    "list_protected_sources": "policy protected",
    "review_memory": "proposals review",
    "list_proposals": "proposals list",
    "get_proposal": "proposals show",
    "accept_proposal": "proposals accept",
    "reject_proposal": "proposals reject",
    "undo_proposal": "proposals undo",
    "get_proposal_policy": "proposals policy",
    "set_proposal_policy": "proposals policy",
    "list_workflows": "workflows list",
    "workflow_history": "workflows history",
    "save_workflow": "workflows save",
    "choose": "workflows choose",
    "reward": "workflows reward",
    "retire_workflow": "workflows retire",
    "share": "share give",
    "list_shares": "share list",
    "withdraw": "share withdraw",
    "list_share_links": "share links",
    "accept_share_link": "share accept",
    "decline_share_link": "share decline",
    "add_database": "database add",
    "list_databases": "database list",
    "refresh_database": "database refresh",
    "remove_database": "database remove",
    "query_data": "database ask",
    "add_document": "document add",
    "list_documents": "document list",
    "read_document": "document read",
    "delete_document": "document remove",
    "search_knowledge": "document search",
    "add_source": "source add",
    "list_sources": "source list",
    "knowledge_map": "source map",
    "remove_source": "source remove",
    "sync_source": "source sync",
    "profile": "profile",
    "save_question": "questions save",
    "list_questions": "questions list",
    "delete_question": "questions remove",
    "standing_answer": "questions answer",
    "get_privacy_policy": "policy privacy",
    "set_privacy_policy": "policy privacy",
    "list_sessions": "sessions list",
    "get_session": "sessions show",
    "list_notes": "sessions show",
    "list_messages": "sessions messages",
    "close_session": "sessions close",
    "list_runs": "runs list",
    "get_run": "runs show",
    "replay_run": "runs replay",
    "enqueue_job": "jobs run",
    "list_jobs": "jobs list",
    "job_counts": "jobs counts",
    "list_dead_letters": "jobs dead",
    "job_schedule": "jobs schedule",
    "server_health": "doctor",
    "active_workflows": "workflows plot",
    "replay_dead_letter": "jobs replay",
    "replay_dead_letters": "jobs replay",
    "discard_dead_letter": "jobs discard",
    "get_tenant": "tenant show",
    "update_tenant": "tenant set",
    "create_key": "key create",
    "list_keys": "key list",
    "revoke_key": "key revoke",
    "reapply_erasures": "db reapply-erasures",
    "create_webhook": "webhooks add",
    "list_webhooks": "webhooks list",
    "get_webhook": "webhooks show",
    "set_webhook_active": "webhooks resume",
    "delete_webhook": "webhooks remove",
}

AN_AGENT_CALLS_IT = "an agent calls it, while it runs"
THE_DASHBOARD_DRAWS_IT = "the dashboard draws it"
A_PROGRAM_CALLS_IT = "a program sets it up; a person reads the result elsewhere"
NO_COMMAND = {
    "memory_activity": THE_DASHBOARD_DRAWS_IT,
    "entity_graph": THE_DASHBOARD_DRAWS_IT,
    "entity_items": THE_DASHBOARD_DRAWS_IT,
    "list_choices": THE_DASHBOARD_DRAWS_IT,
    "item_uses": "the dashboard shows it; `policy forecast` counts the uses",
    "list_erasures": "the dashboard lists them; `erase` waits for its own",
    "settings_in_force": "an operator reads the environment; `doctor` checks it",
    **dict.fromkeys(
        [
            "add_messages",
            "add_note",
            "append_episode",
            "complete_run",
            "delegate",
            "delegated",
            "delete_entry",
            "delete_note",
            "delete_state",
            "end_turn",
            "fail_run",
            "get_entry",
            "get_item",
            "get_state",
            "get_turn_state",
            "get_window",
            "last_episodes",
            "list_namespaces",
            "list_state",
            "open_session",
            "put_entry",
            "record_tool_calls",
            "remember_many",
            "report_usage",
            "resume_session",
            "search_entries",
            "set_state",
            "start_run",
            "start_turn",
        ],
        AN_AGENT_CALLS_IT,
    ),
    **dict.fromkeys(
        [
            "get_agent",
            "get_report",
            "get_user",
            "get_workflow",
            "list_agents",
            "list_audit",
            "list_outcomes",
            "list_reports",
            "list_users",
            "make_daily_brief",
            "save_agent",
            "save_user",
        ],
        A_PROGRAM_CALLS_IT,
    ),
    **dict.fromkeys(["follow_events", "get_job", "list_events"], "a program follows what happens"),
    **dict.fromkeys(
        [
            "copy_memories",
            "get_database",
            "get_document",
            "get_source",
            "read_original",
            "update_database",
            "update_source",
        ],
        A_PROGRAM_CALLS_IT,
    ),
    "consolidate_session": "`recordari jobs run consolidate_sessions` does it for all that ended",
    "get_organisation": "`recordari org list` shows all of them",
    "collect_objects": "`recordari jobs run` starts it",
    "start_sync": "`recordari source sync` waits for it",
    "start_erasing_user": "`recordari erase` waits for it",
    "get_erasure": "`recordari erase` waits for it",
    "start_reembed": "`recordari reembed` waits for it",
    "start_reindex": "`recordari reindex` waits for it",
}


def commands() -> set[str]:
    found = set()
    for name in main.COMMANDS:
        module, _, attribute = main.COMMANDS[name][0].partition(":")
        app = getattr(import_module(f"recordari.{module}"), attribute) if module else None
        if not isinstance(app, typer.Typer):
            found.add(name)
            continue
        for command in app.registered_commands:
            assert command.callback is not None
            found.add(f"{name} {command.name or command.callback.__name__}")
    return found


def test_every_verb_has_a_rest_route() -> None:
    operations = {route.operation_id for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)}
    missing = [
        verb for verb in VERBS if verb not in NO_ROUTE and REST_BY_ANOTHER_NAME.get(verb, (verb,))[0] not in operations
    ]
    assert missing == [], "give each a route whose operation_id is the verb, or say why not"


def test_every_verb_has_a_command_or_a_reason_why_not() -> None:
    assert [verb for verb in VERBS if verb not in COMMANDS and verb not in NO_COMMAND] == []
    assert COMMANDS.keys().isdisjoint(NO_COMMAND)
    assert set(COMMANDS.values()) <= commands()
    assert COMMANDS.keys() | NO_COMMAND.keys() | REST_BY_ANOTHER_NAME.keys() | NO_ROUTE.keys() <= set(VERBS), (
        "it is gone"
    )


def test_every_verb_and_every_command_has_a_line_in_the_docs() -> None:
    by_hand = [page for page in sorted(DOCS.glob("**/*.md")) if page.parent.name != "reference"]  # that is made
    text = "\n".join(page.read_text() for page in by_hand)
    named = set(re.findall(r"`([a-z_ -]+?)(?:\(.*?\))?`", text))
    assert [verb for verb in VERBS if verb not in named] == []
    assert [command for command in sorted(commands()) if f"recordari {command}" not in text] == []
