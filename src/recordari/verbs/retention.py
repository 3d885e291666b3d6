"""What ends memory: the policy and its sweeps, decay, and the erasing of a user."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.lifetime import decay, erase, retain
from recordari.lifetime import retain as lifetime_retain
from recordari.lifetime.decay import Faded
from recordari.lifetime.erase import Reapplied
from recordari.lifetime.erase_storage import Erasure
from recordari.lifetime.retain import Sweep
from recordari.lifetime.rules import RetentionPolicy
from recordari.verbs.bound import Bound


class RetentionVerbs(Bound):
    """The verbs of retention and erasure."""

    async def get_retention_policy(self) -> RetentionPolicy:
        """How long the tenant keeps what it has ended."""
        return await retain.get_policy(self.resources, self.identity)

    async def set_retention_policy(self, **changes: Any) -> RetentionPolicy:
        """Change how long the tenant keeps what it has ended, such as `deleted_days=7`."""
        return await retain.set_policy(self.resources, self.identity, changes)

    async def sweep(self, *, dry_run: bool | None = None, force: bool = False) -> Sweep:
        """Carry the retention policy out now; a dry run only says what that would be."""
        return await retain.sweep(self.resources, self.identity, dry_run=dry_run, force=force)

    async def fade(self) -> Faded:
        """Archive recent memory that has faded and promote what matters, now."""
        return await decay.fade(self.resources, self.identity)

    async def collect_objects(self) -> int:
        """Remove objects that nothing points to, now; how many."""
        return await lifetime_retain.collect_objects(self.resources, self.identity)

    async def erase_user(self, user_id: str) -> Erasure:
        """Erase a user everywhere, and return when it is done."""
        return await erase.erase_user(self.resources, self.identity, user_id)

    async def start_erasing_user(self, user_id: str) -> Erasure:
        """Erase a user everywhere, in the background."""
        return await erase.start_erasing(self.resources, self.identity, user_id)

    async def get_erasure(self, erasure_id: UUID) -> Erasure:
        """How far the erasing of a user has come."""
        return await erase.get_erasure(self.resources, self.identity, erasure_id)

    async def reapply_erasures(self, *, file: Path | None = None) -> Reapplied:
        """Forget again what was forgotten before an older backup was restored."""
        return await erase.reapply(self.resources, self.identity, file=file)
