"""Taking personal data and secrets out of what is handed in, by the tenant's policy, before anything is made of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity
from recordari.core.items import LABELS, NewItem
from recordari.db import audit
from recordari.errors import InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.privacy.rules.findings import DataType
from recordari.privacy.rules.masking import (
    Action,
    PrivacyPolicy,
    holds_secret,
    sanitise,
    sanitise_value,
)
from recordari.tenants import storage
from recordari.tenants.rules import ProtectedSource
from recordari.tenants.tenants import TenantCache, require_admin, update_tenant

INLINE_CHARACTERS = 10_000  # more than these are read in a thread, so that the event loop goes on
PRIVACY_SETTING = "privacy"
"""The key of a tenant's settings under which its policy stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """An item that may be written, and how often each type of data was taken out of it."""

    new: NewItem
    masked: Mapping[str, int] = field(default_factory=dict)
    problem: InvalidInput | None = None
    """Why it cannot be kept under the tenant's policy."""


async def sanitise_items(resources: Resources, identity: Identity, news: Sequence[NewItem]) -> list[Clean]:
    """The items without what the tenant does not want kept, in the same order."""
    policy = await policy_of(resources, identity)
    if not policy.enabled:
        return [Clean(new=new) for new in news]
    if sum(len(str(new.content)) for new in news) <= INLINE_CHARACTERS:
        cleaned = [_clean(new, policy) for new in news]
    else:
        cleaned = await asyncio.to_thread(lambda: [_clean(new, policy) for new in news])
    for clean in cleaned:
        resources.telemetry.count_masked(clean.masked)
    return cleaned


async def policy_of(resources: Resources, identity: Identity) -> PrivacyPolicy:
    """What the identity's tenant wants done with personal data and secrets, as of a moment ago.

    A setting that an older version wrote and this one cannot read must not leave texts unread.
    """
    setting = (await resources.get(TenantCache).get(resources.database, identity)).settings.get(PRIVACY_SETTING)
    try:
        return PrivacyPolicy.read(setting)
    except InvalidInput:
        return PrivacyPolicy()


async def get_privacy_policy(resources: Resources, identity: Identity) -> PrivacyPolicy:
    """What the tenant wants done with each type of personal data and with secrets."""
    resources.forget_tenant(identity.tenant_id)
    return await policy_of(resources, identity)


async def set_privacy_policy(resources: Resources, identity: Identity, setting: Mapping[str, Any]) -> PrivacyPolicy:
    """Replace the tenant's policy, such as `{"default": "mask", "email": "keep"}`; what is left out is at its default."""
    policy = PrivacyPolicy.read(dict(setting))
    await update_tenant(resources, identity, settings={PRIVACY_SETTING: dict(setting)})
    return policy


async def sanitise_json(resources: Resources, identity: Identity, value: Any) -> Any:
    """A JSON value without what the tenant does not want kept."""
    policy = await policy_of(resources, identity)
    if not policy.enabled:
        return value
    changed, found = await asyncio.to_thread(sanitise_value, value, policy=policy)
    resources.telemetry.count_masked(found)
    return changed if found else value


def _clean(new: NewItem, policy: PrivacyPolicy) -> Clean:
    """What is not text or not JSON is left as it is: the rules of items refuse it, and say why."""
    counts: Counter[str] = Counter()
    changes: dict[str, Any] = {}
    if isinstance(new.content, str):
        changes["content"] = _text(new.content, policy, counts)
    for name in LABELS:
        label = getattr(new, name)
        if isinstance(label, str) and label.strip():
            changes[name] = _text(label, policy, counts) or None
    if new.metadata:
        changes["metadata"], found = sanitise_value(new.metadata, policy=policy)
        counts.update(found)
    cleaned = replace(new, **changes) if counts else new
    return Clean(new=cleaned, masked=counts, problem=_problem(new, cleaned, policy))


def _text(text: str, policy: PrivacyPolicy, counts: Counter[str]) -> str:
    cleaned = sanitise(text, policy=policy)
    counts.update(cleaned.counts)
    return cleaned.text


def _problem(new: NewItem, cleaned: NewItem, policy: PrivacyPolicy) -> InvalidInput | None:
    if cleaned is not new and not cleaned.content.strip() and new.content.strip():
        return InvalidInput("nothing is left of the content under the tenant's privacy policy", field="content")
    if not isinstance(new.source_ref, str) or policy.actions[DataType.SECRET] is Action.KEEP:
        return None
    # A key cannot be masked: two keys that become one would be one item.
    if holds_secret(new.source_ref):
        return InvalidInput("source_ref holds a secret, such as a key or a password; use another", field="source_ref")
    return None


async def protect_source(resources: Resources, identity: Identity, source_id: UUID) -> int:
    """Let no fact copy the documents of a source, those to come included; how many texts came under guard."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        texts = await storage.protect_source(tx, source_id)
        await audit.record(tx, "source.protect", "source", source_id, texts=texts)
    return texts


async def unprotect_source(resources: Resources, identity: Identity, source_id: UUID) -> None:
    """Let facts say what they like of a source."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        if not await storage.unprotect_source(tx, source_id):
            raise NotFound("this source is not protected")
        await audit.record(tx, "source.unprotect", "source", source_id)


async def list_protected_sources(resources: Resources, identity: Identity) -> list[ProtectedSource]:
    """The protected sources."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_protected(tx)
