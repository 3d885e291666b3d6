"""Sources that no fact may copy; personal data and secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from recordari.privacy import sanitise
from recordari.privacy import sanitise as privacy_sanitise
from recordari.privacy.rules.masking import PrivacyPolicy
from recordari.privacy.storage import ProtectedSource
from recordari.verbs.bound import Bound


class ProtectionVerbs(Bound):
    """The verbs of protected sources and privacy."""

    async def protect_source(self, source_id: UUID) -> int:
        """Let no fact copy the documents of a source; how many texts came under guard."""
        return await privacy_sanitise.protect_source(self.resources, self.identity, source_id)

    async def unprotect_source(self, source_id: UUID) -> None:
        """Let facts say what they like of a source."""
        await privacy_sanitise.unprotect_source(self.resources, self.identity, source_id)

    async def list_protected_sources(self) -> list[ProtectedSource]:
        """The sources that no fact may copy."""
        return await privacy_sanitise.list_protected(self.resources, self.identity)

    async def get_privacy_policy(self) -> PrivacyPolicy:
        """What the tenant wants done with personal data and secrets."""
        return await sanitise.get_privacy_policy(self.resources, self.identity)

    async def set_privacy_policy(self, setting: Mapping[str, Any]) -> PrivacyPolicy:
        """Replace what the tenant wants done with personal data and secrets."""
        return await sanitise.set_privacy_policy(self.resources, self.identity, setting)
