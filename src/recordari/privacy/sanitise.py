"""Applies the privacy policy of the tenant to new items and JSON values, and protects sources."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from recordari.core.checks import MAX_REASON, check_reason
from recordari.core.identity import Identity
from recordari.core.items import LABELS, NewItem
from recordari.db import audit
from recordari.errors import InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.privacy.rules.findings import DataType
from recordari.privacy.rules.masking import Action, PrivacyPolicy, Tag, holds_secret, sanitise, sanitise_value
from recordari.tenants import storage
from recordari.tenants.rules import ProtectedSource
from recordari.tenants.tenants import TenantCache, require_admin, update_tenant

INLINE_CHARACTERS = 10_000  # longer texts are read in a thread, so that the event loop goes on
# Letters of four bits: enough to tell the values of a tenant apart, too few to find a value from its tag.
TAG_LENGTH = 5
_TAG_LETTERS = "bcdfghjkmnpqrtvz"  # no words, and no digits that a detector could take for a number
END_COPIES_TOPIC = "end_copies"  # the database adds the entries, whenever a text becomes protected
PRIVACY_SETTING = "privacy"
"""The key of the policy in the settings of a tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """An item after the policy, and how often each type of data was removed."""

    new: NewItem
    masked: Mapping[str, int] = field(default_factory=dict)
    problem: InvalidInput | None = None
    """Why the policy forbids the item."""


async def sanitise_items(resources: Resources, identity: Identity, news: Sequence[NewItem]) -> list[Clean]:
    """Apply the policy to items, in the same order."""
    policy, tag = await policy_of(resources, identity), tag_of(resources, identity)
    if not policy.enabled:
        return [Clean(new=new) for new in news]
    is_long = sum(len(str(new.content)) for new in news) > INLINE_CHARACTERS
    cleaned = await asyncio.to_thread(_clean_all, news, policy, tag) if is_long else _clean_all(news, policy, tag)
    for clean in cleaned:
        resources.telemetry.count_masked(clean.masked)
    return cleaned


async def policy_of(resources: Resources, identity: Identity) -> PrivacyPolicy:
    """Return the policy of the tenant, as of a moment ago.

    A setting that this version cannot read counts as the default policy, so that texts are masked all the same.
    """
    setting = (await resources.get(TenantCache).settings(resources.database, identity)).get(PRIVACY_SETTING)
    try:
        return PrivacyPolicy.read(setting)
    except InvalidInput:
        return PrivacyPolicy()


def tag_of(resources: Resources, identity: Identity) -> Tag:
    """Tags of masked values, by a key of this installation and the tenant.

    Whoever has the database alone cannot try addresses against the tags, and two tenants have different ones.
    """
    purpose = f"tags of masked values:{identity.tenant_id}"

    def tag(value: str) -> str:
        digest = hmac.digest(resources.secrets.derived(purpose), value.encode(errors="surrogatepass"), "sha256")
        number = int.from_bytes(digest[:4])
        return "".join(_TAG_LETTERS[number >> 4 * place & 15] for place in range(TAG_LENGTH))

    return tag


async def get_privacy_policy(resources: Resources, identity: Identity) -> PrivacyPolicy:
    """Return the action of the tenant for each type of personal data and for secrets."""
    resources.forget_tenant(identity.tenant_id)
    return await policy_of(resources, identity)


async def set_privacy_policy(resources: Resources, identity: Identity, setting: Mapping[str, Any]) -> PrivacyPolicy:
    """Replace the policy, such as `{"default": "mask", "email": "keep"}`; omitted types have their defaults."""
    policy = PrivacyPolicy.read(dict(setting))
    await update_tenant(resources, identity, settings={PRIVACY_SETTING: dict(setting)})
    return policy


async def sanitise_json(resources: Resources, identity: Identity, value: Any) -> Any:
    """Apply the policy to every text of a JSON value, which may be one text."""
    policy = await policy_of(resources, identity)
    if not policy.enabled or not value:
        return value
    tag = tag_of(resources, identity)
    changed, counts = await asyncio.to_thread(sanitise_value, value, policy=policy, tag=tag)
    resources.telemetry.count_masked(counts)
    return changed if counts else value


async def clean_reason(resources: Resources, identity: Identity, reason: str | None) -> str | None:
    """Apply the policy to a reason that somebody gives for a change: the audit keeps it. Raise if it is too long."""
    check_reason(reason)
    cleaned: str | None = await sanitise_json(resources, identity, reason)
    return cleaned[:MAX_REASON] if cleaned else None


def _clean_all(news: Sequence[NewItem], policy: PrivacyPolicy, tag: Tag) -> list[Clean]:
    return [_clean(new, policy, tag) for new in news]


def _clean(new: NewItem, policy: PrivacyPolicy, tag: Tag) -> Clean:
    """Apply the policy to an item. Values of a wrong type stay: the rules of items refuse them with a reason."""
    counts: Counter[str] = Counter()
    changes: dict[str, Any] = {}
    if isinstance(new.content, str):
        changes["content"] = _text(new.content, policy, tag, counts)
    for name in LABELS:
        label = getattr(new, name)
        if isinstance(label, str) and label.strip():
            changes[name] = _text(label, policy, tag, counts) or None
    if new.metadata:
        changes["metadata"], masked = sanitise_value(new.metadata, policy=policy, tag=tag)
        counts.update(masked)
    cleaned = replace(new, **changes) if counts else new
    return Clean(new=cleaned, masked=counts, problem=_problem(new, cleaned, policy))


def _text(text: str, policy: PrivacyPolicy, tag: Tag, counts: Counter[str]) -> str:
    cleaned = sanitise(text, policy=policy, tag=tag)
    counts.update(cleaned.counts)
    return cleaned.text


def _problem(new: NewItem, cleaned: NewItem, policy: PrivacyPolicy) -> InvalidInput | None:
    if cleaned is not new and not cleaned.content.strip() and new.content.strip():
        return InvalidInput("nothing is left of the content under the tenant's privacy policy", field="content")
    keeps_secrets = policy.actions[DataType.SECRET] is Action.KEEP
    # A reference is not masked: two references that become equal would be one item.
    if isinstance(new.source_ref, str) and not keeps_secrets and holds_secret(new.source_ref):
        return InvalidInput(
            "source_ref contains a secret, such as a key or a password; use another", field="source_ref"
        )
    return None


async def protect_source(resources: Resources, identity: Identity, source_id: UUID) -> int:
    """Let no fact copy the documents of a source, future ones included; return the number of newly protected texts.

    Facts that copy them already end soon after.
    """
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        texts = await storage.protect_source(tx, source_id)
        await audit.record(tx, "source.protect", "source", source_id, texts=texts)
    resources.wake(END_COPIES_TOPIC)
    return texts


async def unprotect_source(resources: Resources, identity: Identity, source_id: UUID) -> None:
    """End the protection of a source: facts may copy it."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        if not await storage.unprotect_source(tx, source_id):
            raise NotFound("this source is not protected")
        await audit.record(tx, "source.unprotect", "source", source_id)


async def list_protected_sources(resources: Resources, identity: Identity) -> list[ProtectedSource]:
    """List the protected sources."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_protected(tx)
