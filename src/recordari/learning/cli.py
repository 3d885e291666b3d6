"""`recordari proposals` and `recordari workflows`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated
from uuid import UUID

import typer

from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask
from recordari.kit.output import AsJson, print_json, print_record, print_table, record
from recordari.kit.verbs import Caller
from recordari.learning import proposals, workflows
from recordari.learning.rules.proposals import Proposal, ProposalKind, ProposalPolicy, ProposalStatus
from recordari.learning.rules.workflows import Choice, Workflow
from recordari.learning.workflows import Rewarded, SavedWorkflow

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
        print_table(shown, empty=f"nothing is {status}; `recordari proposals review` looks now")


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

    def run(caller: Caller) -> Awaitable[ProposalPolicy]:
        if accept or nothing:
            return proposals.set_proposal_policy(*caller, accept or [])
        return proposals.get_proposal_policy(*caller)

    (print_json if as_json else print_record)(record(ask(run, tenant)))


workflows_commands = typer.Typer()

AgentType = Annotated[str, typer.Argument(help="Type of the agent.")]
TaskType = Annotated[str, typer.Argument(help="Type of the task.")]
WorkflowName = Annotated[str, typer.Argument(help="Name of the workflow.")]


@workflows_commands.command("list")
def list_workflows(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    also_ended: Annotated[bool, typer.Option("--also-ended", help="Superseded and retired versions, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List workflows, oldest first."""
    found = ask(lambda caller: workflows.list_workflows(*caller, also_ended=also_ended, limit=limit), tenant)
    _print_workflows(found, as_json=as_json)


@workflows_commands.command()
def history(
    agent_type: AgentType,
    task_type: TaskType,
    name: WorkflowName,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """List every version of a workflow, newest first."""
    found = ask(lambda caller: workflows.workflow_history(*caller, agent_type, task_type, name), tenant)
    _print_workflows(found, as_json=as_json)


@workflows_commands.command()
def save(
    agent_type: AgentType,
    task_type: TaskType,
    name: WorkflowName,
    spec: Annotated[str, typer.Argument(help="How to do the task, as a JSON object.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Keep a workflow; a changed spec supersedes the old version."""
    try:
        given = json.loads(spec)
    except ValueError:
        raise typer.BadParameter("The spec is not JSON.") from None
    saved = ask(
        lambda caller: workflows.save_workflow(*caller, name, given, agent_type=agent_type, task_type=task_type), tenant
    )
    _print_result(saved, as_json=as_json)


@workflows_commands.command()
def choose(
    agent_type: AgentType, task_type: TaskType, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False
) -> None:
    """Draw a workflow for a task; the choice is recorded."""
    _print_result(ask(lambda caller: workflows.choose(*caller, agent_type, task_type), tenant), as_json=as_json)


@workflows_commands.command()
def reward(
    target_id: Annotated[UUID, typer.Argument(help="Id of a choice or a workflow.")],
    score: Annotated[float, typer.Argument(min=0, max=1, help="How well it did, from 0 to 1.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Say how well a choice or a workflow did."""
    _print_result(ask(lambda caller: workflows.reward(*caller, target_id, score), tenant), as_json=as_json)


@workflows_commands.command()
def retire(
    workflow_id: Annotated[UUID, typer.Argument(help="Id of the version.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Never choose a version again; it stays for the record."""
    retired = ask(lambda caller: workflows.retire_workflow(*caller, workflow_id, reason=reason), tenant)
    (print_json if as_json else print_record)(record(retired))


def _print_workflows(found: Sequence[Workflow], *, as_json: bool) -> None:
    if as_json:
        print_json([record(each) for each in found])
    else:
        rows = [{**record(each, without=["spec"]), "mean": round(each.posterior.mean, 3)} for each in found]
        print_table(rows, empty="there is no workflow; `recordari workflows save` keeps one")


def _print_result(result: SavedWorkflow | Choice | Rewarded, *, as_json: bool) -> None:
    """Print an answer about a workflow: JSON as it is, for a person the workflow's fields among the others."""
    if as_json:
        print_json(record(result))
    else:
        print_record({**record(result.workflow), **record(result, without=["workflow"])})
