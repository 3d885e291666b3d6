"""`recordari proposals` and `recordari workflows`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer

from recordari.kit.commands import DEVELOPMENT_TENANT, Limit, Reason, Tenant, ask
from recordari.kit.output import Answer, Commands, Hint, Record, Table, counted, record
from recordari.learning import proposals, workflows
from recordari.learning.rules.proposals import Proposal, ProposalItem, ProposalKind, ProposalStatus
from recordari.learning.rules.workflows import WIDTH, Choice, Workflow, drawn
from recordari.learning.workflows import Rewarded, SavedWorkflow

proposals_commands = Commands()

ProposalId = Annotated[UUID, typer.Argument(help="Id of the proposal, from `recordari proposals list`.")]


@proposals_commands.command()
def review(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Compare memory with itself, and propose changes."""
    return Record(ask(lambda caller: proposals.review_memory(*caller), tenant))


@proposals_commands.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    status: Annotated[ProposalStatus, typer.Option(help="Only this status.")] = ProposalStatus.OPEN,
    kind: Annotated[ProposalKind | None, typer.Option(help="Only this kind.")] = None,
    limit: Limit = 50,
) -> Answer:
    """List proposals, newest first."""
    page = ask(lambda caller: proposals.list_proposals(*caller, status=status, kind=kind, limit=limit), tenant)
    rows = [
        {
            "proposal_id": proposal.proposal_id,
            "kind": proposal.kind,
            "why": proposal.explanation,
            "ends": "; ".join(_text(item) for item in proposal.items if item.ends),
            "stays": "; ".join(_text(item) for item in proposal.items if not item.ends),
            "proposed_at": proposal.proposed_at,
        }
        for proposal in page
    ]
    return Answer(page, Table(rows, empty=f"no proposal is {status}; `recordari proposals review` starts a review"))


def _text(item: ProposalItem) -> str:
    return item.content if item.content is not None else f"{item.item_id} (erased)"


def _shown(proposal: Proposal) -> Answer:
    """A proposal for a person: the decision, then each item with its text and its sources."""
    head = {
        name: value for name, value in record(proposal).items() if name not in {"items", "item_ids", "successor_id"}
    }
    lines = []
    for item in proposal.items:
        lines.append(f"{'ends ' if item.ends else 'stays'}  {item.item_id}  {_text(item)}")
        lines.extend(
            f"       from {source.item_id} ({source.event_time:%Y-%m-%d}): {source.content or 'erased'}"
            for source in item.sources
        )
    return Answer(proposal, Record(head), *lines)


@proposals_commands.command()
def show(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Show one proposal."""
    return _shown(ask(lambda caller: proposals.get_proposal(*caller, proposal_id), tenant))


@proposals_commands.command()
def accept(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None) -> Answer:
    """Carry out a proposal."""
    return _shown(ask(lambda caller: proposals.accept_proposal(*caller, proposal_id, reason=reason), tenant))


@proposals_commands.command()
def reject(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None) -> Answer:
    """Reject a proposal; the same is not proposed again."""
    return _shown(ask(lambda caller: proposals.reject_proposal(*caller, proposal_id, reason=reason), tenant))


@proposals_commands.command()
def undo(proposal_id: ProposalId, *, tenant: Tenant = DEVELOPMENT_TENANT, reason: Reason = None) -> Answer:
    """Undo an accepted proposal."""
    return _shown(ask(lambda caller: proposals.undo_proposal(*caller, proposal_id, reason=reason), tenant))


@proposals_commands.command()
def policy(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    accept: Annotated[list[str] | None, typer.Option(help="Accept this kind at once; repeatable.")] = None,
    nothing: Annotated[bool, typer.Option("--accept-nothing", help="Accept nothing at once.")] = False,
) -> Record:
    """Show or set the kinds of proposals that are accepted at once: merge, retire."""
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
    return _table(ask(lambda caller: workflows.list_workflows(*caller, also_ended=also_ended, limit=limit), tenant))


@workflows_commands.command()
def history(
    agent_type: AgentType, task_type: TaskType, name: WorkflowName, *, tenant: Tenant = DEVELOPMENT_TENANT
) -> Answer:
    """List every version of a workflow, newest first."""
    return _table(ask(lambda caller: workflows.workflow_history(*caller, agent_type, task_type, name), tenant))


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
        value = json.loads(spec)
    except ValueError:
        raise typer.BadParameter("The spec is not JSON.") from None
    saved = ask(
        lambda caller: workflows.save_workflow(*caller, name, value, agent_type=agent_type, task_type=task_type), tenant
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
    """Score a choice or a workflow."""
    return _about(ask(lambda caller: workflows.reward(*caller, target_id, score), tenant))


@workflows_commands.command()
def retire(
    workflow_id: Annotated[UUID, typer.Argument(help="Id of the version.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    reason: Reason = None,
) -> Record:
    """Never choose a version again; it stays readable."""
    return Record(ask(lambda caller: workflows.retire_workflow(*caller, workflow_id, reason=reason), tenant))


@workflows_commands.command()
def plot(agent_type: AgentType, task_type: TaskType, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Plot what is believed of each active workflow of a task: how likely each worth from 0 to 1 is."""
    active = ask(lambda caller: workflows.active_workflows(*caller, agent_type, task_type), tenant)
    if not active:
        return Answer(active, Hint("there is no active workflow for this task; `recordari workflows save` keeps one"))
    lines: list[str] = []
    for workflow, curve in zip(active, drawn([each.posterior for each in active]), strict=True):
        low, high = workflow.posterior.interval()
        named = f"{workflow.name}, version {workflow.version}: {counted(workflow.rewards, 'reward')}"
        lines += [
            f"{named}, mean {workflow.posterior.mean:.2f}, 95 % between {low:.2f} and {high:.2f}",
            *(f"  │{line}" for line in curve),
            f"  └{'─' * WIDTH}",
        ]
    lines.append(f"   0{'worth':^{WIDTH - 2}}1")
    data = [{**record(each), "mean": each.posterior.mean, "interval": each.posterior.interval()} for each in active]
    return Answer(data, *lines)


def _table(page: Sequence[Workflow]) -> Answer:
    rows = [{**record(workflow, without=["spec"]), "mean": round(workflow.posterior.mean, 3)} for workflow in page]
    return Answer(page, Table(rows, empty="there is no workflow; `recordari workflows save` keeps one"))


def _about(result: SavedWorkflow | Choice | Rewarded) -> Answer:
    """For a person, the fields of the workflow are shown among the others."""
    return Answer(result, Record({**record(result.workflow), **record(result, without=["workflow"])}))
