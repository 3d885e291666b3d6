"""`recordari proposals`: review, list, show, accept, reject, undo, policy."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from recordari.kit.commands import DEVELOPMENT_TENANT, Limit, Reason, Tenant, ask
from recordari.kit.output import Answer, Commands, Record, Table, record
from recordari.learning import proposals
from recordari.learning.rules.proposals import ProposalKind, ProposalStatus

proposals_commands = Commands()

ProposalId = Annotated[UUID, typer.Argument(help="Id of the proposal, from `recordari proposals list`.")]


@proposals_commands.command()
def review(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Compare memory with itself now, and propose changes."""
    return Record(ask(lambda caller: proposals.review_memory(*caller), tenant))


@proposals_commands.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    status: Annotated[ProposalStatus, typer.Option(help="Only those.")] = ProposalStatus.OPEN,
    kind: Annotated[ProposalKind | None, typer.Option(help="Only this kind.")] = None,
    limit: Limit = 50,
) -> Answer:
    """List proposals, newest first."""
    found = ask(lambda caller: proposals.list_proposals(*caller, status=status, kind=kind, limit=limit), tenant)
    rows = [{**record(one), "item_ids": " ".join(map(str, one.item_ids))} for one in found]
    return Answer(found, Table(rows, empty=f"nothing is {status}; `recordari proposals review` looks now"))


@proposals_commands.command()
def show(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Show one proposal."""
    return Record(ask(lambda caller: proposals.get_proposal(*caller, proposal_id), tenant))


@proposals_commands.command()
def accept(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None) -> Record:
    """Carry a proposal out."""
    return Record(ask(lambda caller: proposals.accept_proposal(*caller, proposal_id, reason=reason), tenant))


@proposals_commands.command()
def reject(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None) -> Record:
    """Leave everything as it is; the same is not proposed again."""
    return Record(ask(lambda caller: proposals.reject_proposal(*caller, proposal_id, reason=reason), tenant))


@proposals_commands.command()
def undo(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None) -> Record:
    """Take back what accepting a proposal did."""
    return Record(ask(lambda caller: proposals.undo_proposal(*caller, proposal_id, reason=reason), tenant))


@proposals_commands.command()
def policy(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    accept: Annotated[list[str] | None, typer.Option(help="Accept this kind by itself; may be repeated.")] = None,
    nothing: Annotated[bool, typer.Option("--accept-nothing", help="Accept nothing by itself.")] = False,
) -> Record:
    """Show or set which proposals are accepted as soon as they are made: merge, retire."""
    policy = ask(
        lambda caller: (
            proposals.set_proposal_policy(*caller, accept or [])
            if accept or nothing
            else proposals.get_proposal_policy(*caller)
        ),
        tenant,
    )
    return Record({"accept": sorted(policy.accept)})
