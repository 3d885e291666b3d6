"""Sources of knowledge: registered with a name and a description, and told of in the knowledge map (K3, C3)."""

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
    """Which sources there are and which tool reaches each, in about 100 tokens.

    It is made from the sources at every call: one small query, and never out of step with them.
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
    """Register a source; `folder` is read by synchronisation and must lie in one that the settings allow."""
    require_admin(identity)
    chosen = checked_choice("kind", SourceKind, kind)
    if folder is not None and chosen is not SourceKind.DOCUMENTS:
        raise InvalidInput("only a source of documents has a folder", field="folder")
    place = str(allowed_folder(resources, folder)) if folder is not None else None
    async with resources.database.transaction(identity) as tx:
        made = await storage.insert_source(
            tx,
            new_id(),
            name=_name(name),
            kind=chosen,
            description=checked_text("description", description, most=MAX_DESCRIPTION),
            tool=checked_text("tool", tool, most=MAX_TOOL, least=1) if tool is not None else None,
            folder=place,
        )
        if made is None:
            raise Conflict("there is a source of that name already; use another name, or change that one")
        await audit.record(tx, "source.add", "source", made.source_id, kind=str(chosen))
    return made


async def update_source(
    resources: Resources,
    identity: Identity,
    source_id: UUID,
    *,
    name: str | None = None,
    description: str | None = None,
    tool: str | None = None,
) -> Source:
    """Say something else of a source; what is None stays."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        changed = await storage.update_source(
            tx,
            source_id,
            name=_name(name) if name is not None else None,
            description=checked_text("description", description, most=MAX_DESCRIPTION)
            if description is not None
            else None,
            tool=checked_text("tool", tool, most=MAX_TOOL, least=1) if tool is not None else None,
        )
        if changed is None:
            raise NotFound(NO_SUCH_SOURCE)
        await audit.record(tx, "source.change", "source", source_id)
    return changed


async def get_source(resources: Resources, identity: Identity, source_id: UUID) -> Source:
    """One source."""
    async with resources.database.transaction(identity) as tx:
        found = await storage.find_source(tx, source_id)
    if found is None:
        raise NotFound(NO_SUCH_SOURCE)
    return found


async def list_sources(resources: Resources, identity: Identity, *, after: str = "", limit: int = 50) -> list[Source]:
    """Sources by name."""
    async with resources.database.transaction(identity) as tx:
        return await storage.list_sources(tx, after=after, limit=min(limit, MAX_PAGE + 1))


async def find_named(tx: Transaction, named: str | UUID) -> Source | None:
    """The source of that name or id."""
    if isinstance(named, UUID):
        return await storage.find_source(tx, named)
    return await storage.find_source_by_name(tx, named)


async def require_named(tx: Transaction, named: str | UUID) -> Source:
    """The source of that name or id, which there must be."""
    found = await find_named(tx, named)
    if found is None:
        raise NotFound(NO_SUCH_SOURCE)
    return found


def allowed_folder(resources: Resources, folder: Path) -> Path:
    """The folder as the system knows it, if the settings allow to read it: a caller must not read what it likes."""
    allowed = [one.resolve() for one in resources.settings.document_folders]
    real = folder.resolve()
    if not any(real.is_relative_to(one) for one in allowed):
        raise Forbidden(
            "this folder may not be read; whoever runs Recordari allows folders, as in "
            'RECORDARI_DOCUMENT_FOLDERS=["/srv/handbook"]'
        )
    if not real.is_dir():
        raise InvalidInput("there is no such folder", field="folder")
    return real


def _name(name: str) -> str:
    return checked_id("name", checked_text("name", name, most=MAX_SOURCE_NAME, least=1))
