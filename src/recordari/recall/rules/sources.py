"""The places where recall looks, and what a tenant sets about them: whether archived items are found, and history's weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recordari.core.identity import AskedScope, Identity
from recordari.core.items import Kind
from recordari.errors import InvalidInput

HISTORY_KINDS = (Kind.CHAT_MESSAGE, Kind.TOOL_OUTPUT, Kind.SESSION_SUMMARY)
"""What a user's other sessions tell; their notes and facts of the moment stay in the session."""
MOST_WEIGHT = 100.0


class Archive(StrEnum):
    """What recall does with archived items."""

    SHOWN = "shown"
    HIDDEN = "hidden"

    @classmethod
    def read(cls, setting: object) -> Archive:
        """The tenant's setting `archive`, or `InvalidInput`."""
        if setting is None:
            return cls.SHOWN
        if setting not in tuple(cls):
            raise InvalidInput(f"archive must be one of {', '.join(cls)}", field="archive")
        return cls(str(setting))


def history_weight(setting: object) -> float | None:
    """The tenant's setting `history`, a weight of which 0 mutes; None where it has none; or `InvalidInput`."""
    if setting is None:
        return None
    if isinstance(setting, bool) or not isinstance(setting, int | float) or not 0 <= setting <= MOST_WEIGHT:
        raise InvalidInput(f"history must be a weight from 0 to {MOST_WEIGHT:.0f}; 0 mutes it", field="history")
    return float(setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """What a tenant sets about recall."""

    archive: Archive = Archive.SHOWN
    history: float | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RecallSettings:
        """From all settings of a tenant; one of an older version that is no longer valid must not stop a recall."""
        try:
            return cls(archive=Archive.read(settings.get("archive")), history=history_weight(settings.get("history")))
        except InvalidInput:
            return cls()


def searched(identity: Identity, asked: AskedScope, weights: Mapping[AskedScope, float]) -> frozenset[AskedScope]:
    """The places to search: the one that is asked for, or of `any` those that have an owner and are not muted."""
    if asked is not AskedScope.ANY:
        return frozenset({asked})
    return frozenset(scope for scope, owner in _owners(identity).items() if owner is not None and weights[scope] > 0)


def left_out(
    identity: Identity, asked: AskedScope, places: frozenset[AskedScope], weights: Mapping[AskedScope, float]
) -> dict[str, str]:
    """The places that are not searched, each with the reason."""
    if asked is not AskedScope.ANY:
        return {}
    reasons = {}
    for scope, owner in _owners(identity).items():
        if weights[scope] == 0:
            reasons[scope] = "its weight is 0"
        elif owner is None:
            reasons[scope] = f"no {'user' if scope is AskedScope.HISTORY else scope} is named"
        else:
            reasons[scope] = "it has nothing of what is asked for"
    return {str(scope): reasons[scope] for scope in sorted(reasons.keys() - places)}


def _owners(identity: Identity) -> dict[AskedScope, object]:
    return {
        AskedScope.TENANT: identity.tenant_id,
        AskedScope.USER: identity.user_id,
        AskedScope.AGENT: identity.agent_id,
        AskedScope.SESSION: identity.session_id,
        AskedScope.HISTORY: identity.user_id,
    }
