"""The command line: `recordari <command>`.

Only the module of the command that you run is imported, so that `recordari --help` costs little: the others are known
here by name and one sentence. For the same reason the classes below import the library when a command needs it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Annotated

import typer

from recordari.errors import NotFound, RecordariError
from recordari.kit.output import Answer, Commands, fail, print_line

if TYPE_CHECKING:
    from recordari.config import Settings
    from recordari.kit.resources import Resources
    from recordari.kit.verbs import Caller

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
    "facts": ("facts.cli:facts_commands", "List, correct, end, restore and pin facts."),
    "sessions": ("sessions.cli:sessions_commands", "List conversations, show and close one."),
    "runs": ("sessions.cli:runs_commands", "List agent runs, show one and replay its tool calls."),
    "import": ("transfer.cli:import_file", "Import a history, an export, or an export of mem0 or Zep."),
    "export": ("transfer.cli:export", "Write everything of a tenant or of one user as JSON Lines."),
    "forget": ("lifetime.cli:forget", "Redact an item with everything derived from it."),
    "erase": ("lifetime.cli:erase", "Erase a user everywhere."),
    "policy": ("lifetime.cli:policy_commands", "Set how long memory is kept, what is held, protected and masked."),
    "webhooks": ("events.cli:webhooks_commands", "List, add, pause, resume and remove webhooks."),
    "stats": ("operations.cli:stats", "Show how much a tenant remembers and what waits."),
    "document": ("knowledge.cli:document_commands", "Add, list, read, search and remove documents."),
    "source": ("knowledge.cli:source_commands", "Register sources, and synchronise folders of documents."),
    "profile": ("context.cli:profile", "Print what is known of a user or an agent."),
    "reindex": ("worker.cli:reindex", "Derive index, vectors and entities again from the rows."),
    "reembed": ("worker.cli:reembed", "Move to another embedding model while recall goes on."),
    "jobs": ("worker.cli:jobs_commands", "List background work, and replay what failed."),
    "database": ("databases.cli:database_commands", "Connect databases that agents may ask, and ask them."),
    "doctor": ("operations.cli:doctor", "Check what works, and say what to do about the rest."),
    "tenant": ("tenants.cli:tenant_commands", "Create, list, show and change tenants."),
    "proposals": ("learning.cli:proposals_commands", "Decide what the weekly review would change."),
    "workflows": ("learning.cli:workflows_commands", "Save, choose, reward and retire ways to do a task."),
    "share": ("sharing.cli:share_commands", "Share memories with other tenants of the organisation."),
    "org": ("sharing.cli:org_commands", "Group tenants that may share memories."),
    "key": ("tenants.cli:key_commands", "Create, list and revoke API keys."),
    "db": ("operations.cli:db_commands", "Start, stop, migrate, back up and restore the database."),
    "models": ("operations.cli:models_commands", "List, fetch and verify the local models."),
    "version": ("", "Print the version."),
}
COMPLETING, COMPLETED_LINE = "_RECORDARI_COMPLETE", "_TYPER_COMPLETE_ARGS"


class LibraryOpening:
    """Opens the library in this process."""

    def resources(self, settings: Settings) -> AbstractAsyncContextManager[Resources]:
        """Everything verbs need, for these settings."""
        from recordari.wiring import open_resources

        return open_resources(settings)

    @asynccontextmanager
    async def tenant(self, caller: Caller, tenant: str, *, worker: bool) -> AsyncIterator[None]:
        """Make sure that the tenant exists; the first one is made. `worker` runs background work meanwhile."""
        from recordari.kit.commands import DEVELOPMENT_TENANT
        from recordari.runner import background_worker
        from recordari.tenants.tenants import ensure_tenant, get_tenant

        if tenant == DEVELOPMENT_TENANT:
            await ensure_tenant(caller.resources, tenant, actor="cli")
        try:
            await get_tenant(*caller)
        except NotFound:
            raise NotFound(f"there is no tenant {tenant!r}; make it with `recordari tenant create`") from None
        async with AsyncExitStack() as stack:
            if worker and caller.resources.settings.worker:
                await stack.enter_async_context(background_worker(caller.resources))
            yield


def version() -> Answer:
    """Print the version."""
    found = metadata.version("recordari")
    return Answer({"recordari": found, "python": sys.version.split()[0]}, found)


def _only_help(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if show_version:
        print_line(metadata.version("recordari"))
        raise typer.Exit
    if context.invoked_subcommand is not None:
        from recordari.kit.commands import use

        use(LibraryOpening())


def build(wanted: str | None) -> typer.Typer:
    """Make the command tree, with the module of `wanted` loaded and the others as a line of help."""
    root = Commands(
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
                root.add_typer(command, name=name, help=summary, short_help=summary, no_args_is_help=True)
            else:
                root.command(name, short_help=summary)(command)
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
