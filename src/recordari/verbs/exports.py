"""Everything of a tenant or user as JSON Lines, out and in."""

from __future__ import annotations

from collections.abc import AsyncIterator

from recordari.transfer import export, import_export
from recordari.transfer.import_export import Imported, Lines
from recordari.verbs.bound import Bound


class ExportVerbs(Bound):
    """The verbs of export and import."""

    def export(self, *, user_id: str | None = None) -> AsyncIterator[str]:
        """Everything of the tenant or of one user, as lines of JSON."""
        return export.export(self.resources, self.identity, user_id=user_id)

    async def import_export(self, lines: Lines) -> Imported:
        """Write what an export holds and this tenant does not."""
        return await import_export.import_export(self.resources, self.identity, lines)
