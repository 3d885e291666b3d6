"""Sources of knowledge: registered with a name and a description, and listed in the knowledge map (K3, C3)."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from recordari.core.identity import Identity, checked_choice, checked_id
from recordari.core.ids import new_id
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.knowledge import storage
from recordari.knowledge.rules.knowledge_map import (
    MAX_DESCRIPTION,
    MAX_SOURCE_NAME,
    MAX_TOOL,
    Source,
    SourceKind,
    checked_text,
    written_map,
)
from recordari.tenants.tenants import MAX_PAGE, require_admin

NO_SUCH_SOURCE = "there is no such source"
DEFAULT_SOURCE = "documents"


async def knowledge_map(resources: Resources, identity: Identity) -> str:
    """List the sources and the tool that reaches each, in about 100 tokens.

    Every call makes it anew from the sources, by one small query.
    """
    async with resources.database.transaction(identity) as tx:
        return written_map(await storage.list_entries(tx))


async def add_source(
    resources: Resources,
    identity: Identity,
    name: str,
    *,
    kind: SourceKind | str = SourceKind.DOCUMENTS,
    description: str = "",
    tool: str | None = None,
    folder: Path | None = None,
) -> Source:
    """Register a source. Synchronisation reads `folder`, which must be inside a folder that the settings allow."""
    require_admin(identity)
    kind = checked_choice("kind", SourceKind, kind)
    if folder is not None and kind is not SourceKind.DOCUMENTS:
        raise InvalidInput("only a source of documents has a folder", field="folder")
    async with resources.database.transaction(identity) as tx:
        source = await storage.insert_source(
            tx,
            new_id(),
            name=_name(name),
            kind=kind,
            description=checked_text("description", description, most=MAX_DESCRIPTION),
            tool=checked_text("tool", tool, most=MAX_TOOL, least=1) if tool is not None else None,
            folder=str(allowed_folder(resources, folder)) if folder is not None else None,
        )
        if source is None:
            raise Conflict("a source of that name exists already; use another name, or change that one")
        await audit.record(tx, "source.add", "source", source.source_id, kind=str(kind))
    return source


async def update_source(
    resources: Resources,
    identity: Identity,
    source_id: UUID,
    *,
    name: str | None = None,
    description: str | None = None,
    tool: str | None = None,
) -> Source:
    """Change a source; None leaves a field as it is."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        source = await storage.update_source(
            tx,
            source_id,
            name=_name(name) if name is not None else None,
            description=checked_text("description", description, most=MAX_DESCRIPTION)
            if description is not None
            else None,
            tool=checked_text("tool", tool, most=MAX_TOOL, least=1) if tool is not None else None,
        )
        if source is None:
            raise NotFound(NO_SUCH_SOURCE)
        await audit.record(tx, "source.change", "source", source_id)
    return source


async def get_source(resources: Resources, identity: Identity, source_id: UUID) -> Source:
    """Get a source by its id."""
    async with resources.database.transaction(identity) as tx:
        return await require_source(tx, source_id)


async def list_sources(resources: Resources, identity: Identity, *, after: str = "", limit: int = 50) -> list[Source]:
    """List sources, sorted by name."""
    async with resources.database.transaction(identity) as tx:
        return await storage.list_sources(tx, after=after, limit=min(limit, MAX_PAGE + 1))


async def require_source(tx: Transaction, name_or_id: str | UUID) -> Source:
    """The source of that name or id, or `NotFound`."""
    if (source := await storage.find_source(tx, name_or_id)) is None:
        raise NotFound(NO_SUCH_SOURCE)
    return source


def allowed_folder(resources: Resources, folder: Path) -> Path:
    """The resolved folder, if the settings allow to read it: callers must not read every file of the server."""
    real = folder.resolve()
    if not any(real.is_relative_to(allowed.resolve()) for allowed in resources.settings.document_folders):
        raise Forbidden(
            "this folder may not be read; the operator of Recordari allows folders, as in "
            'RECORDARI_DOCUMENT_FOLDERS=["/srv/handbook"]'
        )
    if not real.is_dir():
        raise InvalidInput("there is no such folder", field="folder")
    return real


def _name(name: str) -> str:
    return checked_id("name", checked_text("name", name, most=MAX_SOURCE_NAME, least=1))
