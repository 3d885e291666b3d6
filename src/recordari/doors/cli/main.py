"""The command line: `recordari <command>`.

Only the module of the command that was asked for is imported, so that `recordari --help` costs little: the
others are known here by name and one sentence.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module, metadata
from typing import Annotated

import typer

from recordari.errors import RecordariError
from recordari.kit.output import AsJson, fail, print_json, print_line

__all__ = ["build", "main"]

# name → where it is and what it does: a Typer where it has commands of its own, a function where it has none.
COMMANDS = {
    "serve": ("doors.cli.serve:serve", "Start the server: REST, MCP and background work in one process."),
    "worker": ("doors.cli.serve:worker", "Run background work in a process of its own."),
    "mcp": ("doors.cli.serve:mcp", "Serve MCP over standard input and output, for an agent on this machine."),
    "remember": ("recall.cli:remember", "Remember something."),
    "recall": ("recall.cli:recall", "Ask memory."),
    "context": ("context.cli:context", "Print what an agent would see for a question."),
    "read-tool-output": ("recall.cli:read_tool_output", "Print the whole text behind a preview."),
    "facts": ("facts.cli:facts_commands", "List, correct, end, restore and pin what is known."),
    "sessions": ("sessions.cli:sessions_commands", "List conversations, show and close one."),
    "runs": ("sessions.cli:runs_commands", "List agent runs, show one and replay its tool calls."),
    "import": (
        "transfer.cli:import_file",
        "Remember a history, one JSON object per line of a file; or read an export.",
    ),
    "export": ("transfer.cli:export", "Write everything of a tenant or of one user as JSON Lines."),
    "forget": ("lifetime.cli:forget", "Redact an item with everything derived from it."),
    "erase": ("lifetime.cli:erase", "Erase a user everywhere."),
    "policy": (
        "lifetime.cli:policy_commands",
        "How long memory is kept, what may not be removed or copied, what is masked.",
    ),
    "webhooks": ("events.cli:webhooks_commands", "List, add, pause, resume and remove webhooks."),
    "stats": ("operations.cli:stats", "Show how a tenant's memory fares."),
    "document": ("knowledge.cli:document_commands", "Take documents in; list, read, search and remove them."),
    "source": (
        "knowledge.source_cli:source_commands",
        "Register what can be looked up, and synchronise folders of documents.",
    ),
    "profile": ("context.cli:profile", "Print what is known of a user or an agent."),
    "reindex": ("worker.cli:reindex", "Derive index, vectors and entities again from the rows."),
    "reembed": ("worker.cli:reembed", "Move to another embedding model while recall goes on."),
    "jobs": ("worker.cli:jobs_commands", "List background work, and replay what failed."),
    "database": ("databases.cli:database_commands", "Connect databases that agents may ask, and ask them."),
    "doctor": ("operations.cli:doctor", "Say what works, what is missing, and what to do about it."),
    "tenant": ("tenants.cli:tenant_commands", "Create, list, show and change tenants."),
    "proposals": ("learning.cli:proposals_commands", "Decide what the weekly review would change."),
    "workflows": ("learning.cli:workflows_commands", "Save, choose, reward and retire ways to do a task."),
    "share": ("sharing.cli:share_commands", "Give memories to other tenants of the organisation, and take theirs."),
    "org": ("sharing.cli:org_commands", "Group tenants that may share memories."),
    "key": ("tenants.cli:key_commands", "Create, list and revoke API keys."),
    "db": ("operations.cli:db_commands", "Start, stop, migrate, back up and restore the database."),
    "models": ("operations.models_cli:models_commands", "List, fetch and verify the local models."),
    "version": ("", "Print the version."),
}
COMPLETING, COMPLETED_LINE = "_RECORDARI_COMPLETE", "_TYPER_COMPLETE_ARGS"


def version(*, as_json: AsJson = False) -> None:
    """Print the version."""
    found = {"recordari": metadata.version("recordari"), "python": sys.version.split()[0]}
    if as_json:
        print_json(found)
    else:
        print_line(found["recordari"])


def _only_help(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if show_version:
        version()
        raise typer.Exit
    if context.invoked_subcommand is not None:
        from recordari.doors.cli.opening import LibraryOpening
        from recordari.kit.commands import use

        use(LibraryOpening())


def build(wanted: str | None) -> typer.Typer:
    """Make the command tree, with the module of `wanted` loaded and the others as a line of help."""
    root = typer.Typer(
        name="recordari",
        help="Memory for AI agents: remembers, recalls, forgets by policy.",
        no_args_is_help=True,
        rich_markup_mode=None,  # plain lines, as all that we print: no boxes, in a pipe or out of one
        pretty_exceptions_enable=False,  # they print the values of variables, secrets included
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback(invoke_without_command=True)(_only_help)
    for name, (place, summary) in COMMANDS.items():
        if name == "version":
            root.command(name)(version)
        elif name != wanted:
            root.command(name, help=summary, short_help=summary)(_only_help)
        else:
            module, _, attribute = place.partition(":")
            command = getattr(import_module(f"recordari.{module}"), attribute)
            if isinstance(command, typer.Typer):
                for each in command.registered_commands:
                    # Said whole: left to itself the list of commands would cut it.
                    each.short_help = (getattr(each.callback, "__doc__", None) or "").partition("\n")[0]
                root.add_typer(command, name=name, help=summary, short_help=summary, no_args_is_help=True)
            else:
                root.command(name, help=command.__doc__, short_help=summary)(command)
    return root


def main() -> None:
    """Run the command of `sys.argv`; exit code 1 for an error of ours, 2 for wrong usage."""
    # A shell that completes a line hands it over in a variable of its own.
    words = os.environ.get(COMPLETED_LINE, "").split() if COMPLETING in os.environ else sys.argv
    wanted = next((word for word in words[1:] if not word.startswith("-")), None)
    try:
        build(wanted)(prog_name="recordari")
    except RecordariError as error:
        fail(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # The reader (`head`, `less`) has left; Python must not try to flush what nobody reads.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
