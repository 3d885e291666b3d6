"""The command line: `recordari <command>`.

Only the module of the command that you run is imported, so that `recordari --help` is fast; this module has the names
and summaries of the others. For the same reason the library is imported only when a command needs it.
"""

from __future__ import annotations

import gc
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
    from types import ModuleType

    from recordari.config import Settings
    from recordari.kit.resources import Resources
    from recordari.kit.verbs import Caller

__all__ = ["build", "main"]

# By name: its place and its summary. A place is a Typer for a group of commands, and a function for one command.
COMMANDS = {
    "serve": ("doors.cli.serve:serve", "Start the server: REST, MCP and background work in one process."),
    "demo": ("doors.cli.serve:demo", "Look at Recordari with the memory of an invented support agent."),
    "proxy": ("doors.proxy.app:proxy", "Put memory in front of any model, as OpenAI and Anthropic speak."),
    "worker": ("doors.cli.serve:worker", "Run background work in a process of its own."),
    "mcp": ("doors.cli.serve:mcp", "Serve MCP over standard input and output, for an agent on this machine."),
    "install": ("hosts.cli:install", "Install Recordari into a coding agent or another MCP host."),
    "uninstall": ("hosts.cli:uninstall", "Remove Recordari from a host, and restore its settings."),
    "status": ("hosts.cli:status", "Say where Recordari is installed, and what its hooks did last."),
    "pause": ("hosts.cli:pause", "Let the hooks of all hosts do nothing."),
    "resume": ("hosts.cli:resume", "Let the hooks go on."),
    "remember": ("recall.cli:remember", "Remember something."),
    "recall": ("recall.cli:recall", "Search memory."),
    "ask": ("recall.cli:ask_memory", "Answer a question from memory."),
    "context": ("context.cli:context", "Print the context that an agent would get for a question."),
    "read-tool-output": ("recall.cli:read_tool_output", "Print the whole text behind a preview."),
    "facts": ("facts.cli:facts_commands", "List, correct, end, restore and pin facts."),
    "sessions": ("sessions.cli:sessions_commands", "List conversations, show and close one."),
    "runs": ("sessions.cli:runs_commands", "List agent runs, show one and replay its tool calls."),
    "import": ("transfer.cli:import_file", "Import a history, an export, or an export of mem0 or Zep."),
    "export": ("transfer.cli:export", "Write everything of a tenant or of one user as JSON Lines."),
    "forget": ("lifetime.cli:forget", "Redact an item with everything derived from it."),
    "erase": ("lifetime.cli:erase", "Erase a user everywhere."),
    "erase-agent": ("lifetime.cli:erase_agent", "Remove an agent, and what it remembered if you say so."),
    "policy": ("lifetime.cli:policy_commands", "Set how long memory is kept, what is held, protected and masked."),
    "webhooks": ("events.cli:webhooks_commands", "List, add, pause, resume and remove webhooks."),
    "stats": ("operations.cli:stats", "Show how much a tenant remembers and how much work waits."),
    "document": ("knowledge.cli:document_commands", "Add, list, read, search and remove documents."),
    "source": ("knowledge.cli:source_commands", "Register sources, and synchronise folders of documents."),
    "profile": ("context.cli:profile", "Print the profile of a user or an agent."),
    "questions": ("context.cli:questions_commands", "Ask standing questions, and print their answers."),
    "reindex": ("worker.cli:reindex", "Derive index, vectors and entities again from the rows."),
    "reembed": ("worker.cli:reembed", "Move to another embedding model while recall keeps working."),
    "jobs": ("worker.cli:jobs_commands", "List background work, and replay failed work."),
    "database": ("databases.cli:database_commands", "Connect databases that agents may query, and query them."),
    "doctor": ("operations.cli:doctor", "Check the installation, and say how to fix problems."),
    "settings": ("operations.cli:settings", "List the settings: variable, default and meaning."),
    "self-check": ("operations.cli:self_check", "Check an installation after an upgrade by using it."),
    "eval": ("evaluation.cli:evaluation", "Measure recall and answers on public benchmarks that you have."),
    "tenant": ("tenants.cli:tenant_commands", "Create, list, show and change tenants."),
    "proposals": ("learning.cli:proposals_commands", "Accept or reject the changes that the weekly review proposes."),
    "workflows": ("learning.cli:workflows_commands", "Save, choose, reward and retire ways to do a task."),
    "share": ("sharing.cli:share_commands", "Share memories with other tenants of the organisation."),
    "org": ("sharing.cli:org_commands", "Group tenants that may share memories."),
    "key": ("tenants.cli:key_commands", "Create, list and revoke API keys."),
    "sign-in": ("tenants.cli:sign_in", "Print an address of the dashboard that signs in once."),
    "db": ("operations.cli:db_commands", "Start, stop, migrate, back up and restore the database."),
    "models": ("operations.cli:models_commands", "List, fetch and verify the local models."),
    "version": ("", "Print the version."),
}
COMPLETING, COMPLETED_LINE = "_RECORDARI_COMPLETE", "_TYPER_COMPLETE_ARGS"


class LibraryOpening:
    """Opens the library in this process, for `kit.commands`."""

    def resources(self, settings: Settings) -> AbstractAsyncContextManager[Resources]:
        from recordari.wiring import open_resources

        return open_resources(settings)

    @asynccontextmanager
    async def tenant(self, caller: Caller, tenant: str, *, worker: bool) -> AsyncIterator[None]:
        """Check that the tenant exists, and create the development tenant. `worker` runs background work meanwhile."""
        from recordari.kit.commands import DEVELOPMENT_TENANT
        from recordari.runner import background_worker
        from recordari.tenants.tenants import ensure_tenant, get_tenant

        if tenant == DEVELOPMENT_TENANT:
            await ensure_tenant(caller.resources, tenant, actor="cli")
        try:
            await get_tenant(*caller)
        except NotFound:
            raise NotFound(f"there is no tenant {tenant!r}; create it with `recordari tenant create`") from None
        async with AsyncExitStack() as stack:
            if worker and caller.resources.settings.worker:
                await stack.enter_async_context(background_worker(caller.resources))
            yield


def version() -> Answer:
    """Print the version."""
    installed = metadata.version("recordari")
    return Answer({"recordari": installed, "python": sys.version.split()[0]}, installed)


def _only_help(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        print_line(metadata.version("recordari"))
        raise typer.Exit
    if context.invoked_subcommand is not None:
        from recordari.kit.commands import use

        use(LibraryOpening())


def build(command_name: str | None) -> typer.Typer:
    """Make the command tree; only the module of the named command is loaded."""
    root = Commands(
        name="recordari",
        help="Memory for AI agents: remembers, recalls, forgets by policy.",
        no_args_is_help=True,
        rich_markup_mode=None,  # plain lines like all our output, without boxes
        pretty_exceptions_enable=False,  # they print the values of variables, secrets included
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback(invoke_without_command=True)(_only_help)
    for name, (place, summary) in COMMANDS.items():
        if name == "version":
            root.command(name)(version)
        elif name != command_name:
            root.command(name, help=summary, short_help=summary)(_only_help)
        else:
            module, _, attribute = place.partition(":")
            command = getattr(_imported(f"recordari.{module}"), attribute)
            if isinstance(command, typer.Typer):
                root.add_typer(command, name=name, help=summary, short_help=summary, no_args_is_help=True)
            else:
                root.command(name, short_help=summary)(command)
    return root


def _imported(module: str) -> ModuleType:
    """Import with the garbage collector off: it would walk all that is new again and again, and free nothing."""
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.enable()


def main() -> None:
    """Run the command of `sys.argv`; exit code 1 for an error of ours, 2 for wrong usage."""
    # A shell that completes a line passes it in an environment variable.
    words = os.environ.get(COMPLETED_LINE, "").split() if COMPLETING in os.environ else sys.argv
    try:
        build(next((word for word in words[1:] if not word.startswith("-")), None))(prog_name="recordari")
    except RecordariError as error:
        fail(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # The reader (`head`, `less`) has exited; Python must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
