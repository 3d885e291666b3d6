"""`recordari doctor`: what works, what is missing, what to do."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from recordari.kit.commands import read_settings
from recordari.kit.output import AsJson, print_json, print_table
from recordari.service.doctor import State, has_failed
from recordari.wiring import diagnose

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    *,
    no_start: Annotated[bool, typer.Option("--no-start", help="Do not start the embedded database.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what works, what is missing, and what to do about it; exit code 1 when something does not work."""
    checks = asyncio.run(diagnose(read_settings(), start=not no_start))
    if as_json:
        print_json({"ok": not has_failed(checks), "checks": checks})
    else:
        rows = [
            {
                "state": check.state,
                "check": check.name,
                "found": check.found if check.state is State.OK else f"{check.found} → {check.advice}",
            }
            for check in checks
        ]
        print_table(rows, empty="nothing to look at", styles=STYLES)
    if has_failed(checks):
        raise typer.Exit(1)
