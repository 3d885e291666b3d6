"""`recordari webhooks`: list, show, add, pause, resume, remove."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from recordari.events import webhooks
from recordari.events.rules import EventType
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, Yes, ask
from recordari.kit.output import Answer, Commands, Hint, Record, Table, confirm, record

webhooks_commands = Commands()

WebhookId = Annotated[UUID, typer.Argument(help="Id of the webhook, from `recordari webhooks list`.")]
SECRET = ("secret",)


@webhooks_commands.command("list")
def list_all(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the webhooks of a tenant with the state of their deliveries."""
    every = ask(lambda caller: webhooks.list_webhooks(*caller), tenant)
    return Table([record(webhook, without=SECRET) for webhook in every], empty="there are no webhooks")


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
    """Post events to an address from now on; the secret is printed only once."""
    new = ask(lambda caller: webhooks.create_webhook(*caller, url, types=types or []), tenant)
    return Answer(
        {"secret": new.secret, **record(new.webhook, without=SECRET)},
        new.secret,
        Hint(f"webhook {new.webhook.webhook_id}; the secret is not shown again"),
    )


@webhooks_commands.command()
def pause(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Stop deliveries to a webhook for now."""
    return _set_active(webhook_id, tenant, is_active=False)


@webhooks_commands.command()
def resume(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Deliver the events since the pause, in the background, and go on."""
    return _set_active(webhook_id, tenant, is_active=True)


def _set_active(webhook_id: UUID, tenant: str, *, is_active: bool) -> Record:
    webhook = ask(lambda caller: webhooks.set_webhook_active(*caller, webhook_id, is_active=is_active), tenant)
    return Record(record(webhook, without=SECRET))


@webhooks_commands.command()
def remove(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False) -> Answer:
    """Delete a webhook."""
    confirm(f"Remove the webhook {webhook_id}?", yes=yes)
    ask(lambda caller: webhooks.delete_webhook(*caller, webhook_id), tenant)
    return Answer({"webhook_id": webhook_id, "done": "removed"}, f"{webhook_id}  removed")
