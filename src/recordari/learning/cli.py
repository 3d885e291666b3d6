"""`recordari proposals`: dream, list, show, accept, reject, undo, policy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated
from uuid import UUID

import typer

from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask, open_memory
from recordari.kit.output import AsJson, print_json, print_record, print_table, record
from recordari.kit.verbs import Caller
from recordari.learning import proposals
from recordari.learning.rules.proposals import Proposal, ProposalKind, ProposalStatus

proposals_commands = typer.Typer()

ProposalId = Annotated[UUID, typer.Argument(help="Id of the proposal, from `recordari proposals list`.")]
Reason = Annotated[str | None, typer.Option(help="Why; kept in the audit.")]


def _decided(tenant: str, decide: Callable[[Caller], Awaitable[Proposal]], *, as_json: bool) -> None:
    (print_json if as_json else print_record)(record(ask(decide, tenant)))


@proposals_commands.command()
def review(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Compare memory with itself now, and propose what should change."""
    (print_json if as_json else print_record)(record(ask(lambda caller: proposals.review_memory(*caller), tenant)))


@proposals_commands.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    status: Annotated[ProposalStatus, typer.Option(help="Which ones.")] = ProposalStatus.OPEN,
    kind: Annotated[ProposalKind | None, typer.Option(help="Only this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List proposals, newest first."""
    rows = [
        record(one)
        for one in ask(lambda caller: proposals.list_proposals(*caller, status=status, kind=kind, limit=limit), tenant)
    ]
    if as_json:
        print_json(rows)
    else:
        shown = [{**row, "item_ids": " ".join(map(str, row["item_ids"]))} for row in rows]
        print_table(shown, empty=f"nothing is {status}; `recordari proposals dream` looks now")


@proposals_commands.command()
def show(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Show one proposal."""
    _decided(tenant, lambda caller: proposals.get_proposal(*caller, proposal_id), as_json=as_json)


@proposals_commands.command()
def accept(
    proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None, as_json: AsJson = False
) -> None:
    """Carry a proposal out."""
    _decided(tenant, lambda caller: proposals.accept_proposal(*caller, proposal_id, reason=reason), as_json=as_json)


@proposals_commands.command()
def reject(
    proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None, as_json: AsJson = False
) -> None:
    """Leave everything as it is; the same is not proposed again."""
    _decided(tenant, lambda caller: proposals.reject_proposal(*caller, proposal_id, reason=reason), as_json=as_json)


@proposals_commands.command()
def undo(
    proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None, as_json: AsJson = False
) -> None:
    """Take back what accepting a proposal did."""
    _decided(tenant, lambda caller: proposals.undo_proposal(*caller, proposal_id, reason=reason), as_json=as_json)


@proposals_commands.command()
def policy(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    accept: Annotated[list[str] | None, typer.Option(help="Accept this kind by itself; may be repeated.")] = None,
    nothing: Annotated[bool, typer.Option("--accept-nothing", help="Accept nothing by itself.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or set which proposals are accepted as soon as they are made: merge, retire."""

    async def run() -> list[str]:
        async with open_memory(tenant) as caller:
            if accept or nothing:
                return sorted((await proposals.set_proposal_policy(*caller, accept or [])).accept)
            return sorted((await proposals.get_proposal_policy(*caller)).accept)

    (print_json if as_json else print_record)({"accept": asyncio.run(run())})
