// Workflows: for each task the ways to do it, and what is believed of their worth.
import { call } from "../api/client";
import type { Workflow } from "../api/schema";
import { forTenant } from "../frame/session";
import { density, mean, spread } from "../kit/beta";
import { LineChart } from "../kit/charts";
import { several, share } from "../kit/format";
import { usePages } from "../kit/list";
import { changeSettings, Link, usePlace } from "../kit/router";
import { Badge, Button, Check, Empty, ErrorBox, Page, Section, Skeleton } from "../kit/ui";

export function workflowPath(workflow: { workflow_id: string }): string {
  return `/ui/workflows/${workflow.workflow_id}`;
}

/** In the order of their names, so that each has the same colour on every page. */
export function byName(one: Workflow, other: Workflow): number {
  return one.name.localeCompare(other.name) || one.version - other.version;
}

export function Worth({ workflow }: { workflow: Workflow }) {
  return <span title={`Beta(${workflow.alpha.toFixed(1)}, ${workflow.beta.toFixed(1)})`}>{share(mean(workflow.alpha, workflow.beta))} <span class="muted">± {share(spread(workflow.alpha, workflow.beta))}</span></span>;
}

/** What is believed of each, as a curve: narrow where much is known, to the right where it is good. */
export function Posteriors({ workflows, height = 170 }: { workflows: Workflow[]; height?: number }) {
  const lines = workflows.map((workflow, index) => ({ points: density(workflow.alpha, workflow.beta), tone: `hue-${index % 8}`, name: `${workflow.name}: worth ${share(mean(workflow.alpha, workflow.beta))}` }));
  return (
    <>
      <LineChart label={`Belief about the worth: ${lines.map((line) => line.name).join("; ")}`} lines={lines} height={height} x={share} y={(value) => value.toFixed(1)} />
      <p class="muted small">Across: the worth, from 0 to 100 %. Up: how likely it is. A narrow curve rests on many rewards.</p>
    </>
  );
}

export default function Workflows() {
  const { query } = usePlace();
  const ended = query.get("ended") === "1";
  const pages = usePages<Workflow>(["workflows", ended], (cursor, signal) => call("list_workflows", { query: { also_ended: ended, limit: 100, cursor }, signal }));
  const tasks = new Map<string, Workflow[]>();
  for (const workflow of pages.rows) {
    const task = `${workflow.agent_type} · ${workflow.task_type}`;
    tasks.set(task, [...(tasks.get(task) ?? []), workflow]);
  }
  for (const workflows of tasks.values()) workflows.sort(byName);
  const rewards = pages.rows.reduce((sum, workflow) => sum + workflow.rewards, 0);
  return (
    <Page title="Workflows" says={pages.rows.length > 0 ? `${several(pages.rows.length, "way")} to do ${several(tasks.size, "task")}, judged by ${several(rewards, "reward")}. Each is chosen as often as it is likely to be the best.` : "Ways to do a task. Agents choose one, and their rewards decide which is chosen more often."}>
      <div class="filters"><Check label="ended versions too" checked={ended} onChange={(on) => changeSettings({ ended: on ? "1" : null }, { replace: true })} /></div>
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {pages.loading && pages.rows.length === 0 && <Skeleton lines={8} />}
      {!pages.loading && pages.rows.length === 0 && !pages.error && <Empty title="No workflow yet." command={forTenant(`recordari workflows save support refund polite '{"steps": ["ask for the order"]}'`)}>Save one, and its curve appears here:</Empty>}
      <div class="columns wide">
        {[...tasks].map(([task, workflows]) => (
          <Section key={task} title={task} aside={several(workflows.length, "way")}>
            <Posteriors workflows={workflows} />
            <div class="rows">
              {workflows.map((workflow, index) => (
                <Link key={workflow.workflow_id} to={workflowPath(workflow)} class="item-row">
                  <span class="item-text"><i class={`swatch hue-${index % 8}`} />{workflow.name} <span class="muted">version {workflow.version}</span></span>
                  <span class="item-meta"><Worth workflow={workflow} /><span>{several(workflow.rewards, "reward")}</span>{workflow.invalid_at && <Badge tone="warn">{workflow.superseded_by ? "superseded" : "retired"}</Badge>}</span>
                </Link>
              ))}
            </div>
          </Section>
        ))}
      </div>
      {!pages.done && !pages.loading && !pages.error && <Button kind="quiet" onClick={pages.more}>More workflows</Button>}
    </Page>
  );
}
