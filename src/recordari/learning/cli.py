"""`recordari proposals` and `recordari workflows`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer

from recordari.kit.commands import DEVELOPMENT_TENANT, Limit, Reason, Tenant, ask
from recordari.kit.output import Answer, Commands, Record, Table, record
from recordari.learning import proposals, workflows
from recordari.learning.rules.proposals import ProposalKind, ProposalStatus
from recordari.learning.rules.workflows import Choice, Workflow
from recordari.learning.workflows import Rewarded, SavedWorkflow

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


workflows_commands = Commands()

AgentType = Annotated[str, typer.Argument(help="Type of the agent.")]
TaskType = Annotated[str, typer.Argument(help="Type of the task.")]
WorkflowName = Annotated[str, typer.Argument(help="Name of the workflow.")]


@workflows_commands.command("list")
def list_workflows(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    also_ended: Annotated[bool, typer.Option("--also-ended", help="Superseded and retired versions, too.")] = False,
    limit: Limit = 50,
) -> Answer:
    """List workflows, oldest first."""
    found = ask(lambda caller: workflows.list_workflows(*caller, also_ended=also_ended, limit=limit), tenant)
    return _listed(found)


@workflows_commands.command()
def history(
    agent_type: AgentType,
    task_type: TaskType,
    name: WorkflowName,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """List every version of a workflow, newest first."""
    found = ask(lambda caller: workflows.workflow_history(*caller, agent_type, task_type, name), tenant)
    return _listed(found)


@workflows_commands.command()
def save(
    agent_type: AgentType,
    task_type: TaskType,
    name: WorkflowName,
    spec: Annotated[str, typer.Argument(help="How to do the task, as a JSON object.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Keep a workflow; a changed spec supersedes the old version."""
    try:
        given = json.loads(spec)
    except ValueError:
        raise typer.BadParameter("The spec is not JSON.") from None
    saved = ask(
        lambda caller: workflows.save_workflow(*caller, name, given, agent_type=agent_type, task_type=task_type), tenant
    )
    return _about(saved)


@workflows_commands.command()
def choose(agent_type: AgentType, task_type: TaskType, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Draw a workflow for a task; the choice is recorded."""
    return _about(ask(lambda caller: workflows.choose(*caller, agent_type, task_type), tenant))


@workflows_commands.command()
def reward(
    target_id: Annotated[UUID, typer.Argument(help="Id of a choice or a workflow.")],
    score: Annotated[float, typer.Argument(min=0, max=1, help="How well it did, from 0 to 1.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Say how well a choice or a workflow did."""
    return _about(ask(lambda caller: workflows.reward(*caller, target_id, score), tenant))


@workflows_commands.command()
def retire(
    workflow_id: Annotated[UUID, typer.Argument(help="Id of the version.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    reason: Reason = None,
) -> Record:
    """Never choose a version again; it stays for the record."""
    retired = ask(lambda caller: workflows.retire_workflow(*caller, workflow_id, reason=reason), tenant)
    return Record(retired)


def _listed(found: Sequence[Workflow]) -> Answer:
    rows = [{**record(each, without=["spec"]), "mean": round(each.posterior.mean, 3)} for each in found]
    return Answer(found, Table(rows, empty="there is no workflow; `recordari workflows save` keeps one"))


def _about(result: SavedWorkflow | Choice | Rewarded) -> Answer:
    """An answer about a workflow: for a person the workflow's fields stand among the others."""
    return Answer(result, Record({**record(result.workflow), **record(result, without=["workflow"])}))
