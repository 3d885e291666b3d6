"""`recordari webhooks`: list, add, pause, resume, remove."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from recordari.events import webhooks
from recordari.events.rules import EventType, Webhook
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask
from recordari.kit.output import (
    AsJson,
    Yes,
    confirm,
    print_json,
    print_line,
    print_note,
    print_record,
    print_table,
    record,
)

webhooks_commands = typer.Typer()

WebhookId = Annotated[UUID, typer.Argument(help="Id of the webhook, from `recordari webhooks list`.")]


@webhooks_commands.command("list")
def list_all(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List the webhooks of a tenant, and how each fares."""
    rows = [_visible(each) for each in ask(lambda caller: webhooks.list_webhooks(*caller), tenant)]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty="there are no webhooks")


@webhooks_commands.command()
def show(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show one webhook."""
    found = ask(lambda caller: webhooks.get_webhook(*caller, webhook_id), tenant)
    (print_json if as_json else print_record)(_visible(found))


@webhooks_commands.command()
def add(
    url: Annotated[str, typer.Argument(help="Where events are posted.")],
    *,
    types: Annotated[list[EventType] | None, typer.Option("--type", help="Only this type; repeatable.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Send what happens from now on to an address; the secret is printed this once."""
    made = ask(lambda caller: webhooks.create_webhook(*caller, url, types=types or []), tenant)
    if as_json:
        print_json({"secret": made.secret, **_visible(made.webhook)})
    else:
        print_line(made.secret)
        print_note(f"webhook {made.webhook.webhook_id}; the secret is not shown again")


@webhooks_commands.command()
def pause(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Tell a webhook nothing for now."""
    changed = ask(lambda caller: webhooks.set_webhook_active(*caller, webhook_id, is_active=False), tenant)
    (print_json if as_json else print_record)(_visible(changed))


@webhooks_commands.command()
def resume(webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Tell a webhook everything since; a worker does it."""
    changed = ask(lambda caller: webhooks.set_webhook_active(*caller, webhook_id, is_active=True), tenant)
    (print_json if as_json else print_record)(_visible(changed))


@webhooks_commands.command()
def remove(
    webhook_id: WebhookId, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Tell a webhook nothing more."""
    confirm(f"Remove the webhook {webhook_id}?", yes=yes)
    ask(lambda caller: webhooks.delete_webhook(*caller, webhook_id), tenant)
    if as_json:
        print_json({"webhook_id": webhook_id, "done": "removed"})
    else:
        print_line(f"{webhook_id}  removed")


def _visible(webhook: Webhook) -> dict[str, object]:
    return record(webhook, without=("secret",))
