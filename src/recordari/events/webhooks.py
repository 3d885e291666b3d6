"""Webhooks: events are posted, signed, to the addresses that a tenant names (X7).

Each webhook has a position in the feed, which advances when a delivery is answered with 2xx: events arrive in order and
at least once, also after an outage. A write wakes the webhook through the outbox. A failed delivery is tried again with
growing delays for a day; then it is a dead letter that you can replay.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from recordari.core.addresses import outgoing_address
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.core.ids import new_id
from recordari.db import audit, outbox
from recordari.errors import Conflict, InvalidInput, NotFound, ProviderError, RecordariError
from recordari.events import storage
from recordari.events.follow import place, read_feed
from recordari.events.rules import (
    MOST_WEBHOOKS,
    SECRET_BYTES,
    SECRET_PREFIX,
    Event,
    Webhook,
    checked_types,
    checked_url,
    signature,
)
from recordari.kit.resources import Resources
from recordari.kit.verbs import existing
from recordari.tenants.tenants import require_admin

TOPIC = "webhook"
EVENTS_AT_ONCE = 100
POSTS_AT_ONCE = 20
ANSWER_SECONDS = 10.0  # shorter than the lease
LEASE = timedelta(seconds=15)  # shorter than the lease of the outbox: the next worker finds the webhook free


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    """A new webhook: the only answer that contains its secret."""

    __pydantic_config__ = DESCRIBED

    webhook: Webhook
    secret: str


async def create_webhook(
    resources: Resources, identity: Identity, url: str, *, types: Sequence[str] = ()
) -> NewWebhook:
    """Post events to an address from now on; only this answer contains the secret."""
    require_admin(identity)
    checked_url(url)
    checked = checked_types(types)
    try:
        await find_address(url, allow_private=_allows_private(resources))
    except ProviderError as error:
        raise InvalidInput(error.message, field="url") from error
    webhook_id = new_id()
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    sealed = resources.secrets.seal(secret, purpose=_purpose(identity, webhook_id))
    position = await place(resources, identity)
    async with resources.database.transaction(identity) as tx:
        if len(await storage.list_webhooks(tx)) >= MOST_WEBHOOKS:
            raise Conflict(f"a tenant has at most {MOST_WEBHOOKS} webhooks; delete one first")
        webhook = await storage.insert_webhook(tx, webhook_id, url=url, types=checked, secret=sealed, position=position)
        await audit.record(tx, "webhook.create", "webhook", webhook_id, types=[*map(str, checked)])
    return NewWebhook(webhook=webhook, secret=secret)


async def list_webhooks(resources: Resources, identity: Identity) -> list[Webhook]:
    """List the webhooks of the tenant with the state of their deliveries."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_webhooks(tx)


async def get_webhook(resources: Resources, identity: Identity, webhook_id: UUID) -> Webhook:
    """Return a webhook with the state of its deliveries."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return existing(await storage.find_webhook(tx, webhook_id), "webhook")


async def set_webhook_active(resources: Resources, identity: Identity, webhook_id: UUID, *, is_active: bool) -> Webhook:
    """Switch a webhook off, or on again: then it receives the events since, as far as the feed reaches back."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        webhook = existing(await storage.set_active(tx, webhook_id, is_active=is_active), "webhook")
        if is_active:
            await outbox.add(tx, TOPIC, [webhook_id])
        await audit.record(tx, "webhook.resume" if is_active else "webhook.pause", "webhook", webhook_id)
    resources.wake(TOPIC)
    return webhook


async def delete_webhook(resources: Resources, identity: Identity, webhook_id: UUID) -> None:
    """Delete a webhook; nothing more is posted to it."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        if not await storage.delete_webhook(tx, webhook_id):
            raise NotFound("there is no such webhook")
        await audit.record(tx, "webhook.delete", "webhook", webhook_id)


async def deliver(resources: Resources, identity: Identity, batch: Sequence[UUID]) -> None:
    """Bring webhooks up to date; a failure of one does not stop the others."""
    problem: RecordariError | None = None
    for webhook_id in dict.fromkeys(batch):
        try:
            await _bring_up_to_date(resources, identity, webhook_id)
        except RecordariError as error:
            problem = problem or error
    if problem is not None:
        raise problem


async def resume_webhooks(resources: Resources, identity: Identity, **_: Any) -> None:
    """Wake webhooks that are behind after a crash. An hourly job."""
    await place(resources, identity)
    async with resources.database.transaction(identity) as tx:
        behind = await storage.list_behind(tx, topic=TOPIC)
        await outbox.add(tx, TOPIC, behind)
    if behind:
        resources.wake(TOPIC)


async def _bring_up_to_date(resources: Resources, identity: Identity, webhook_id: UUID) -> None:
    while True:
        async with resources.database.transaction(identity) as tx:
            webhook = await storage.take_webhook(tx, webhook_id, lease=LEASE)
        if webhook is None:
            return  # deleted, switched off, or leased by a worker that looks once more before it releases it
        try:
            position, is_done = await _send_all(resources, identity, webhook)
        except RecordariError as error:
            async with resources.database.transaction(identity) as tx:
                await storage.note_failure(tx, webhook_id, error=error.message, now=resources.clock())
            raise
        async with resources.database.transaction(identity) as tx:
            await storage.leave_webhook(tx, webhook_id)
            if not is_done:
                await outbox.add(tx, TOPIC, [webhook_id])
        if not is_done or not await read_feed(resources, identity, after=position, types=webhook.types, limit=1):
            return


async def _send_all(resources: Resources, identity: Identity, webhook: Webhook) -> tuple[int, bool]:
    """Send the events after the position of the webhook; return its new position and whether that is the end."""
    secret = resources.secrets.open(webhook.secret, purpose=_purpose(identity, webhook.webhook_id))
    position = webhook.position
    for _ in range(POSTS_AT_ONCE):
        events = await read_feed(resources, identity, after=position, types=webhook.types, limit=EVENTS_AT_ONCE)
        if not events:
            return position, True
        await _send(resources, identity, webhook, secret, events)
        position = events[-1].position
        async with resources.database.transaction(identity) as tx:
            await storage.note_delivery(tx, webhook.webhook_id, position=position, now=resources.clock(), lease=LEASE)
    return position, False


async def _send(
    resources: Resources, identity: Identity, webhook: Webhook, secret: str, events: Sequence[Event]
) -> None:
    body = json.dumps({"tenant_id": str(identity.tenant_id), "events": [event.written() for event in events]}).encode()
    # The same events have the same id, so that a receiver recognises a repetition.
    message_id = f"{webhook.webhook_id}.{events[0].position}-{events[-1].position}"
    timestamp = int(resources.clock().timestamp())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "recordari-webhook",
        "Webhook-Id": message_id,
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": signature(secret, message_id, timestamp, body),
    }
    await post(webhook.url, body, headers, allow_private=_allows_private(resources))


def _purpose(identity: Identity, webhook_id: UUID) -> str:
    return f"webhook:{identity.tenant_id}:{webhook_id}"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def _allows_private(resources: Resources) -> bool:
    return "webhooks" in resources.settings.allow_private_addresses


async def find_address(url: str, *, allow_private: bool) -> str:
    """Return the numeric address of a host; `InvalidInput` if any of its addresses is in a private or special network."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
    try:
        return await outgoing_address(host, port, allow_private=allow_private)
    except LookupError:
        raise ProviderError("the host name of the webhook cannot be looked up", service="the webhook") from None
    except PermissionError:
        raise InvalidInput(
            "the address of a webhook must be public; the operator of Recordari can allow private ones with "
            "RECORDARI_ALLOW_PRIVATE_ADDRESSES='[\"webhooks\"]'",
            field="url",
        ) from None


async def post(url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool) -> None:
    """Post to the current address of the host, and to no other; `ProviderError` unless it answers with 2xx."""
    import httpx2

    address = await find_address(url, allow_private=allow_private)
    parts = urlsplit(url)
    target = httpx2.URL(url).copy_with(host=address)
    named = {**headers, "Host": parts.netloc.rpartition("@")[2]}
    server_name = {"sni_hostname": parts.hostname}
    try:
        # No proxy of the environment and no redirect: both would lead to an address that is not checked.
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            httpx2.AsyncClient(timeout=ANSWER_SECONDS, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", target, content=body, headers=named, extensions=server_name) as response,
        ):
            status = response.status_code
    except (httpx2.HTTPError, TimeoutError, OSError) as error:
        raise ProviderError(f"the webhook cannot be reached ({type(error).__name__})", service="the webhook") from None
    if not 200 <= status < 300:
        raise ProviderError(f"the webhook answered HTTP {status}", status=status, service="the webhook")
