// Operate: background work, retention, erasure and export, people and keys, webhooks, the audit, and how the server is.
import { call } from "../../api/client";
import { count, several } from "../../kit/format";
import { useLoad } from "../../kit/load";
import { usePlace } from "../../kit/router";
import { Tabs } from "../../kit/tabs";
import { Page } from "../../kit/ui";
import { Audit } from "./audit";
import { Data } from "./data";
import { People } from "./people";
import { Retention } from "./retention";
import { Server } from "./server";
import { Webhooks } from "./webhooks";
import { Work } from "./work";

const PATH = "/ui/operate";
const TABS: [string, string, () => preact.JSX.Element][] = [
  ["", "Work", Work],
  ["retention", "Retention", Retention],
  ["data", "Erasure and export", Data],
  ["people", "People and keys", People],
  ["webhooks", "Webhooks", Webhooks],
  ["audit", "Audit", Audit],
  ["server", "Server", Server],
];

export default function Operate() {
  const { query } = usePlace();
  const Shown = TABS.find(([name]) => name === (query.get("tab") ?? ""))?.[2] ?? Work;
  const counts = useLoad(["job-counts"], (signal) => call("job_counts", { signal, as: {} }));
  const sum = (numbers: Record<string, number>) => Object.values(numbers).reduce((total, number) => total + number, 0);
  const dead = counts.data && sum(counts.data.outbox_parked) + (counts.data.jobs.failed ?? 0);
  const waiting = counts.data && sum(counts.data.outbox_pending) + (counts.data.jobs.todo ?? 0);
  const says = counts.data && `${waiting ? `${count(waiting)} pieces of work wait` : "No work waits"}; ${dead ? `${several(dead, "piece", "pieces")} of work failed for good and ${dead === 1 ? "waits" : "wait"} for you` : "nothing failed for good"}.`;
  return (
    <Page title="Operate" says={says}>
      <Tabs path={PATH} tabs={TABS.map(([name, title]) => [name, title])} />
      <Shown />
    </Page>
  );
}
