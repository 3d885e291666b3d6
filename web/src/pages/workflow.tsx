// One version of a workflow: its belief, its spec, its versions, and its choices with their rewards.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Outcome, PastChoice, Workflow } from "../api/schema";
import { isAdmin } from "../frame/session";
import { LineChart } from "../kit/charts";
import { Data } from "../kit/data";
import { Confirm } from "../kit/dialog";
import { onDay, several, share } from "../kit/format";
import { usePages } from "../kit/list";
import { useLoad } from "../kit/load";
import { Link } from "../kit/router";
import { DataTable } from "../kit/table";
import { Badge, Button, ErrorBox, Facts, Page, Section, ShortId, Show, Time } from "../kit/ui";
import { byName, Posteriors, Worth, workflowPath } from "./workflows";

export default function WorkflowPage({ id }: { id: string }) {
  const workflow = useLoad(["workflow", id], (signal) => call("get_workflow", { path: { workflow_id: id }, signal }));
  return <Show of={workflow} lines={10}>{(data) => <Shown workflow={data} reload={workflow.reload} key={id} />}</Show>;
}

function Shown({ workflow, reload }: { workflow: Workflow; reload: () => void }) {
  const [retiring, setRetiring] = useState(false);
  const task = { agent_type: workflow.agent_type, task_type: workflow.task_type };
  const rivals = useLoad(["active", task], (signal) => call("active_workflows", { query: task, signal }));
  const history = useLoad(["workflow-history", task, workflow.name], (signal) => call("workflow_history", { query: { ...task, name: workflow.name }, signal }));
  const together = [workflow, ...(rivals.data ?? []).filter((other) => other.workflow_id !== workflow.workflow_id)].sort(byName);
  return (
    <Page
      title={workflow.name}
      says={<>Version {workflow.version} of {workflow.agent_type} · {workflow.task_type}; worth <Worth workflow={workflow} /> after {several(workflow.rewards, "reward")}{workflow.invalid_at ? `; ${workflow.superseded_by ? "superseded" : "retired"} on ${onDay(workflow.invalid_at)}` : ""}.</>}
      actions={isAdmin() && !workflow.invalid_at && <Button kind="danger" onClick={() => setRetiring(true)}>Retire…</Button>}
    >
      <div class="split">
        <div class="stack">
          <Section title="Against the others of the task">
            <Posteriors workflows={together} />
            <p class="item-meta legend">{together.map((each, index) => <span key={each.workflow_id}><i class={`swatch hue-${index % 8}`} />{each.name}</span>)}</p>
          </Section>
          <Rewards workflow={workflow} tone={`hue-${together.indexOf(workflow) % 8}`} />
          <Choices workflow={workflow} />
        </div>
        <aside class="stack">
          <Section title="Versions">
            <Show of={history}>{(versions) => <div class="rows">{versions.map((version) => <Link key={version.workflow_id} to={workflowPath(version)} class="item-row"><span class="item-text">{version.workflow_id === workflow.workflow_id ? <strong>version {version.version}</strong> : `version ${version.version}`}</span><span class="item-meta"><Worth workflow={version} /><Time at={version.valid_at} /></span></Link>)}</div>}</Show>
          </Section>
          <Section title="Spec"><Data value={workflow.spec} /></Section>
          <Facts rows={[["agent type", workflow.agent_type], ["task type", workflow.task_type], ["alpha", workflow.alpha.toFixed(2)], ["beta", workflow.beta.toFixed(2)], ["since", <Time at={workflow.valid_at} />], ["id", <ShortId id={workflow.workflow_id} />]]} />
        </aside>
      </div>
      {retiring && (
        <Confirm title="Retire this version" action="Retire" word="retire" danger reason close={() => setRetiring(false)} run={(reason) => call("retire_workflow", { path: { workflow_id: workflow.workflow_id }, body: { reason: reason || null } }).then(reload)}>
          <p>It is never chosen again, and nothing takes its place. It stays readable; saving its spec again makes a new version.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Rewards({ workflow, tone }: { workflow: Workflow; tone: string }) {
  const pages = usePages<Outcome>(["outcomes", workflow.workflow_id], (cursor, signal) => call("list_outcomes", { path: { workflow_id: workflow.workflow_id }, query: { limit: 100, cursor }, signal }));
  const oldest = [...pages.rows].reverse();
  let sum = 0;
  const points = oldest.map((outcome) => ({ x: new Date(outcome.rewarded_at).getTime(), y: outcome.score }));
  const means = oldest.map((outcome, index) => ({ x: new Date(outcome.rewarded_at).getTime(), y: (sum += outcome.score) / (index + 1) }));
  return (
    <Section title="Rewards" aside={pages.rows.length > 0 ? `${pages.rows.length === 1 ? "one" : `the last ${pages.rows.length}`}, mean ${share(means.at(-1)?.y ?? 0)}` : undefined}>
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {!pages.loading && pages.rows.length === 0 && <p class="muted">No reward yet: what is believed is only the prior.</p>}
      {points.length === 1 && <p class="muted">From the second reward on a curve is drawn.</p>}
      {points.length > 1 && <LineChart label={`${several(points.length, "reward")}, mean ${share(means.at(-1)?.y ?? 0)}`} lines={[{ points, tone: "thin" }, { points: means, tone, name: "mean so far" }]} most={1} height={130} x={(value) => onDay(new Date(value))} y={share} />}
      {points.length > 1 && <p class="muted small">Grey: each reward. Coloured: their mean so far.</p>}
      {!pages.done && !pages.loading && !pages.error && <Button kind="quiet" onClick={pages.more}>Earlier rewards</Button>}
    </Section>
  );
}

function Choices({ workflow }: { workflow: Workflow }) {
  const pages = usePages<PastChoice>(["choices", workflow.workflow_id], (cursor, signal) => call("list_choices", { path: { workflow_id: workflow.workflow_id }, query: { limit: 25, cursor }, signal }));
  return (
    <Section title="Choices" aside="of the last 90 days">
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {!pages.loading && pages.rows.length === 0 && <p class="muted">It has not been chosen yet.</p>}
      {pages.rows.length > 0 && (
        <DataTable<PastChoice>
          label="Choices"
          rows={pages.rows}
          keyOf={(choice) => choice.choice_id}
          columns={[
            { title: "when", cell: (choice) => <Time at={choice.chosen_at} />, class: "nowrap" },
            { title: "agent", cell: (choice) => choice.agent_id },
            ...(pages.rows.some((choice) => choice.session_id) ? [{ title: "session", cell: (choice: PastChoice) => choice.session_id && <Link to={`/ui/sessions/${encodeURIComponent(choice.session_id)}`} settings={choice.owned_by.startsWith("user:") ? { as_user: choice.owned_by.slice(5) } : {}}>{choice.session_id}</Link> }] : []),
            ...(pages.rows.some((choice) => choice.run_id) ? [{ title: "run", cell: (choice: PastChoice) => choice.run_id && <Link to={`/ui/runs/${encodeURIComponent(choice.run_id)}`} settings={choice.owned_by.startsWith("user:") ? { as_user: choice.owned_by.slice(5) } : {}}>{choice.run_id}</Link> }] : []),
            { title: "drawn", cell: (choice) => choice.sample.toFixed(2), class: "number" },
            { title: "out of", cell: (choice) => several(choice.candidates, "way"), class: "number nowrap" },
            { title: "reward", cell: (choice) => choice.score === null ? <Badge>none yet</Badge> : <Badge tone={choice.score >= 0.5 ? "good" : "bad"}>{choice.score.toFixed(2)}</Badge>, class: "right" },
          ]}
        />
      )}
      {!pages.done && !pages.loading && !pages.error && <Button kind="quiet" onClick={pages.more}>Earlier choices</Button>}
    </Section>
  );
}
