// The audit: who changed what, when and why. Every filter is in the address.
import { call } from "../../api/client";
import type { AuditEntry } from "../../api/schema";
import { words } from "../../kit/format";
import { itemPath } from "../../kit/item";
import { usePages } from "../../kit/list";
import { changeSettings, Link, usePlace } from "../../kit/router";
import { DataTable } from "../../kit/table";
import { Button, Choice, ErrorBox, Filters, Pairs, Section, ShortId, Skeleton, TextField, Time } from "../../kit/ui";

const GROUPS = ["item", "fact", "proposal", "ruling", "user", "key", "sign_in", "tenant", "agent", "workflow", "document", "source", "database", "job", "webhook", "retention", "share"];

const PATHS: Record<string, (id: string) => string> = { item: itemPath, workflow: (id) => `/ui/workflows/${id}`, document: (id) => `/ui/documents/${id}` };

/** What an entry is about; a link where there is a page of it. */
function Subject({ entry }: { entry: AuditEntry }) {
  const path = PATHS[entry.subject_kind]?.(entry.subject_id);
  return <>{path ? <Link to={path}>{words(entry.subject_kind)}</Link> : words(entry.subject_kind)} <ShortId id={entry.subject_id} /></>;
}

export function Audit() {
  const { query } = usePlace();
  const has = (name: string) => query.get(name) ?? "";
  const set = (name: string) => (value: string) => changeSettings({ [name]: value }, { replace: true });
  const day = (name: string) => (has(name) ? new Date(`${has(name)}T00:00`).toISOString() : undefined);
  const [kind, id] = [has("subject_kind"), has("subject_id").trim()];
  const filters = kind && id ? { subject_kind: kind, subject_id: id } : { action: has("action") || undefined, actor: has("actor").trim() || undefined, since: day("since"), until: day("until") };
  const pages = usePages<AuditEntry>(["audit", filters], (cursor, signal) => call("list_audit", { query: { ...filters, limit: 50, cursor }, signal, as: {} }));
  return (
    <Section title="Audit" aside="ids and reasons, never content">
      <Filters role="search" chosen={["action", "actor", "since", "until", "subject_kind", "subject_id"].filter((name) => has(name)).length}>
        <Choice label="Group" value={GROUPS.includes(has("action")) ? has("action") : ""} any="all" options={GROUPS} onChange={set("action")} />
        <TextField label="Action" value={has("action")} placeholder="item.forget" onInput={set("action")} />
        <TextField label="Actor" value={has("actor")} placeholder="job:decay" onInput={set("actor")} />
        <TextField label="From" type="date" value={has("since")} onInput={set("since")} />
        <TextField label="Until" type="date" value={has("until")} onInput={set("until")} />
        <TextField label="Kind of subject" value={kind} placeholder="item" onInput={set("subject_kind")} />
        <TextField label="Id of subject" value={has("subject_id")} onInput={set("subject_id")} />
      </Filters>
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {pages.loading && pages.rows.length === 0 ? <Skeleton lines={6} /> : pages.rows.length === 0 ? <p class="muted">Nothing fits.</p> : (
        <DataTable<AuditEntry>
          label="Audit"
          rows={pages.rows}
          keyOf={(entry) => entry.audit_id}
          columns={[
            { title: "when", cell: (entry) => <Time at={entry.at} />, class: "nowrap" },
            { title: "action", cell: (entry) => <Link to="/ui/operate" settings={{ tab: "audit", action: entry.action }}>{entry.action}</Link> },
            { title: "actor", cell: (entry) => <Link to="/ui/operate" settings={{ tab: "audit", actor: entry.actor }}><span class="cell-text">{entry.actor}</span></Link> },
            { title: "subject", cell: (entry) => <Subject entry={entry} />, class: "nowrap" },
            { title: "why", cell: (entry) => <span dir="auto" class="cell-text">{entry.reason}</span> },
            { title: "details", cell: (entry) => <Pairs of={entry.details} /> },
          ]}
        />
      )}
      {!pages.done && !pages.loading && !pages.error && <Button kind="quiet" onClick={pages.more}>Earlier entries</Button>}
    </Section>
  );
}
