"""`recordari webhooks`: list, show, add, pause, resume, remove."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from recordari.events import webhooks
from recordari.events.rules import EventType
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, Yes, ask
from recordari.kit.output import Answer, Commands, Note, Record, Table, confirm, record

webhooks_commands = Commands()

WebhookId = Annotated[UUID, typer.Argument(help="Id of the webhook, from `recordari webhooks list`.")]
SECRET = ("secret",)


@webhooks_commands.command("list")
def list_all(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the webhooks of a tenant, and how each fares."""
    found = ask(lambda caller: webhooks.list_webhooks(*caller), tenant)
    return Table([record(each, without=SECRET) for each in found], empty="there are no webhooks")


@webhooks_commands.command()
def show(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Show one webhook."""
    return Record(record(ask(lambda caller: webhooks.get_webhook(*caller, webhook_id), tenant), without=SECRET))


@webhooks_commands.command()
def add(
    url: Annotated[str, typer.Argument(help="Where events are posted.")],
    *,
    types: Annotated[list[EventType] | None, typer.Option("--type", help="Only this type; repeatable.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Send events to an address from now on; the secret is printed this once."""
    made = ask(lambda caller: webhooks.create_webhook(*caller, url, types=types or []), tenant)
    return Answer(
        {"secret": made.secret, **record(made.webhook, without=SECRET)},
        made.secret,
        Note(f"webhook {made.webhook.webhook_id}; the secret is not shown again"),
    )


@webhooks_commands.command()
def pause(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Send a webhook nothing for now."""
    return _set_active(webhook_id, tenant, is_active=False)


@webhooks_commands.command()
def resume(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Send a webhook everything since it was paused; a worker does it."""
    return _set_active(webhook_id, tenant, is_active=True)


def _set_active(webhook_id: UUID, tenant: str, *, is_active: bool) -> Record:
    changed = ask(lambda caller: webhooks.set_webhook_active(*caller, webhook_id, is_active=is_active), tenant)
    return Record(record(changed, without=SECRET))


@webhooks_commands.command()
def remove(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False) -> Answer:
    """Send a webhook nothing more, and forget it."""
    confirm(f"Remove the webhook {webhook_id}?", yes=yes)
    ask(lambda caller: webhooks.delete_webhook(*caller, webhook_id), tenant)
    return Answer({"webhook_id": webhook_id, "done": "removed"}, f"{webhook_id}  removed")
