"""Entity tags: what a thing was like when it was read, so that a change can name what it changes."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Header
from pydantic import BaseModel

from recordari.entry.rest.errors import Problem
from recordari.errors import PreconditionFailed

IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", max_length=200, description="Change it only if it is still as under this `ETag`."),
]

MISMATCH: dict[int | str, dict[str, Any]] = {
    412: {"model": Problem, "description": "It is no longer as under that `ETag`; read it again."}
}


def etag_of(shown: BaseModel) -> str:
    """The tag of a thing as it is shown: another one whenever anything of it changes."""
    return f'"{hashlib.sha256(shown.model_dump_json().encode()).hexdigest()[:32]}"'


def require_match(if_match: str | None, etag: str) -> None:
    """Raise `PreconditionFailed` unless the header is left out, `*`, or lists the tag."""
    if if_match is None:
        return
    named = {each.strip() for each in if_match.split(",")}
    if "*" not in named and etag not in named:
        raise PreconditionFailed
