"""`recordari install`, `uninstall`, `status`, `pause` and `resume`: Recordari in coding agents and other hosts."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from recordari.errors import InvalidInput
from recordari.hosts import install as verbs
from recordari.hosts.install import BUDGET, HostInstallation, Request
from recordari.hosts.rules.hosts import HOSTS, HostName, Place
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask, read_settings
from recordari.kit.output import Answer, Hint, Table, Text, print_json
from recordari.kit.verbs import Caller

Host = Annotated[HostName, typer.Argument(help="Which host.")]
InProject = Annotated[bool, typer.Option("--project", help="Only in this project.")]
ForUser = Annotated[bool, typer.Option("--user", help="In every project of yours; this is the default.")]
File = Annotated[Path | None, typer.Option(help="Of the host `mcp`: its file of settings.")]


def install(
    host: Host,
    *,
    project: InProject = False,
    user: ForUser = False,
    whose: Annotated[str | None, typer.Option("--as", help="Whose memory it is; your login, if left out.")] = None,
    prompts: Annotated[bool, typer.Option("--prompts", help="Also show what is relevant at each prompt.")] = False,
    budget: Annotated[
        int, typer.Option(min=200, help="Most tokens of the context at the start of a session.")
    ] = BUDGET,
    file: File = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Install Recordari into a coding agent: the MCP server, and hooks where the host has them.

    The host's own settings are merged, never replaced; `recordari uninstall` restores them. A second time it brings
    everything up to date. For any other MCP host, `mcp` prints the entry, or adds it to `--file`.
    """
    place, folder = _place(project=project, user=user), Path.cwd()
    request = Request(
        host=host,
        place=place,
        project=folder,
        user=whose or getpass.getuser(),
        tenant=tenant,
        prompts=prompts,
        budget=budget,
        file=file.absolute() if file is not None else None,
    )
    if host is HostName.MCP and file is None:
        print_json(verbs.printed_entry(read_settings(), request))
        raise typer.Exit

    async def run(caller: Caller) -> HostInstallation:
        return await verbs.install(caller.resources, caller, request)

    made = ask(run, tenant)
    remark = HOSTS[host].remark
    return Answer(
        {"host": host, "place": place, "user": made.user, "files": [file.file for file in made.files]},
        f"Recordari is installed in {HOSTS[host].title}, with the memory of {made.user}",
        *(f"  {file.file}" for file in made.files),
        Hint(remark) if remark else None,
    )


def uninstall(
    host: Host,
    *,
    project: InProject = False,
    user: ForUser = False,
    file: File = None,
) -> Answer:
    """Remove Recordari from a host; its settings are as they were. Your memory stays."""
    named = file.absolute() if file is not None else None
    installed = verbs.find_installation(read_settings(), host, _place(project=project, user=user), Path.cwd(), named)

    async def run(caller: Caller) -> list[str]:
        return await verbs.uninstall(caller.resources, caller, installed)

    files = ask(run, installed.tenant)
    return Answer({"host": host, "files": files}, f"removed from {HOSTS[host].title}", *(f"  {name}" for name in files))


def status() -> Answer:
    """Say where Recordari is installed, whether its server answers, and what the hooks did last."""
    found = verbs.status(read_settings())
    columns = ("host", "place", "user", "calls", "away", "failed", "median_ms", "last")
    changed = [f"changed since: {name}" for host in found.hosts for name in host.changed_since]
    return Answer(
        found,
        Table(
            found.hosts, columns=columns, empty="not installed anywhere; `recordari install claude-code` is a beginning"
        ),
        f"server   {found.server}",
        f"hooks    {'paused; `recordari resume` lets them go on' if found.paused else 'active'}",
        f"waiting  {found.waiting}" if found.waiting else None,
        f"log      {found.folder}/hook.log",
        Text("\n".join(changed)) if changed else None,
    )


def pause() -> Answer:
    """Let the hooks of all hosts do nothing: nothing is shown, and nothing is kept."""
    verbs.set_paused(read_settings(), paused=True)
    return Answer({"paused": True}, "paused; `recordari resume` lets the hooks go on")


def resume() -> Answer:
    """Let the hooks go on after `recordari pause`."""
    verbs.set_paused(read_settings(), paused=False)
    return Answer({"paused": False}, "the hooks are active")


def _place(*, project: bool, user: bool) -> Place:
    if project and user:
        raise InvalidInput("choose --project or --user")
    return Place.PROJECT if project else Place.USER
