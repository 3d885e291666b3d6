"""`recordari models`: list, pull, verify."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from recordari.kit.commands import read_settings
from recordari.kit.output import AsJson, clean, console, print_json, print_line, print_table, record, size
from recordari.models import pull as service
from recordari.models.pull import PullProgress

models_commands = typer.Typer()

STYLES = {"ok": "green", "missing": "yellow", "corrupt": "bold red"}

Names = Annotated[list[str] | None, typer.Argument(help="Names of models; the needed ones when left out.")]


@models_commands.command("list")
def list_all(*, as_json: AsJson = False) -> None:
    """List the models, and which are on this machine."""
    found = service.list_models(read_settings())
    if as_json:
        print_json(found)
    else:
        rows = [{**record(model, without=("bytes",)), "size": size(model.bytes)} for model in found]
        print_table(rows, empty="no models are known")


@models_commands.command()
def pull(names: Names = None, *, as_json: AsJson = False) -> None:
    """Fetch models, unless they are here and unharmed."""
    settings = read_settings()
    folders = {}
    for name in names or service.needed_models(settings):
        with _progress_bar(name, hidden=as_json) as progress:
            folders[name] = asyncio.run(service.pull_model(settings, name, progress=progress))
        if not as_json:
            print_line(f"{name}: {folders[name]}")
    if as_json:
        print_json(folders)


@models_commands.command()
def verify(names: Names = None, *, as_json: AsJson = False) -> None:
    """Compare every file of a model with its SHA-256; exit code 1 when one is missing or changed."""
    settings = read_settings()
    reports = [asyncio.run(service.verify_model(settings, name)) for name in names or service.needed_models(settings)]
    if as_json:
        print_json([{"model": report.model, "ok": report.ok, "files": dict(report.files)} for report in reports])
    else:
        rows = [
            {"model": report.model, "file": file, "state": state}
            for report in reports
            for file, state in report.files.items()
        ]
        print_table(
            rows,
            empty="nothing to verify",
            styles=STYLES,
        )
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


@contextmanager
def _progress_bar(name: str, *, hidden: bool) -> Iterator[Callable[[PullProgress], None]]:
    """Draw what a pull reports; on standard error, and only on a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    terminal = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=terminal, disable=hidden or not terminal.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def show(step: PullProgress) -> None:
            description = f"{name}: {step.stage} {clean(step.detail)}".rstrip()
            bar.update(task, description=description, completed=step.done, total=step.total or None)

        yield show
