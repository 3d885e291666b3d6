// One memory: its text, its time line, where it comes from, what it led to, how it fades, and what people may do with it.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Forecast, Item, ItemUse } from "../api/schema";
import { isAdmin } from "../frame/session";
import { LineChart, useWidth } from "../kit/charts";
import { Data } from "../kit/data";
import { Confirm, Dialog } from "../kit/dialog";
import { ago, bytes, onDay, several, share, words } from "../kit/format";
import { carrier, itemPath, ItemRow, ItemState, Marked, shownItem } from "../kit/item";
import { useKeys } from "../kit/keys";
import { asApiError, type Loaded, useLoad } from "../kit/load";
import { acting, address, go, Link, usePlace } from "../kit/router";
import { DataTable } from "../kit/table";
import { Badge, Button, ErrorBox, Facts, KindLabel, Page, Section, ShortId, Show, Time } from "../kit/ui";
import "./item.css";

type Doing = "edit" | "invalidate" | "forget" | "hold" | null;

export default function ItemPage({ id }: { id: string }) {
  const item = useLoad(["item", id], (signal) => call("get_item", { path: { item_id: id }, signal }));
  return (
    <Show of={item} lines={10}>
      {(data) => <Shown item={data} reload={item.reload} key={id} />}
    </Show>
  );
}

function Shown({ item, reload }: { item: Item; reload: () => void }) {
  const forecast = useLoad(["forecast", item.item_id], (signal) => call("item_forecast", { path: { item_id: item.item_id }, signal }));
  const history = useLoad(isAdmin() ? ["history", item.item_id, item.invalid_at] : null, (signal) => call("item_history", { path: { item_id: item.item_id }, signal }));
  return (
    <Page
      title={<KindLabel kind={item.kind} />}
      says={sentence(item, forecast.data)}
    >
      <div class="split item-split">
        <div class="stack">
          <Text item={item} />
          {isAdmin() ? <Show of={history}>{(versions) => <TimeLine versions={versions} current={item.item_id} />}</Show> : <TimeLine versions={[item]} current={item.item_id} />}
          <Origin item={item} />
          <Uses item={item} />
          <Fading forecast={forecast} />
          {isAdmin() && <AuditOf id={item.item_id} />}
        </div>
        <aside class="stack">
          <Actions item={item} pinned={forecast.data?.is_pinned ?? false} reload={() => { reload(); forecast.reload(); history.reload(); }} />
          <Facts
            rows={[
              ["scope", <>{item.scope} <span class="muted small">{SCOPES[item.scope]}</span></>],
              ["tier", <>{item.tier} <span class="muted small">{TIERS[item.tier]}</span></>],
              ["trust", <>{item.trust} <span class="muted small">it was {carrier(item)}</span></>],
              ["user", item.user_id],
              ["agent", item.agent_id],
              ["session", item.session_id && <Link to={`/ui/sessions/${encodeURIComponent(item.session_id)}`}>{item.session_id}</Link>],
              ["run", item.run_id && <Link to={`/ui/runs/${encodeURIComponent(item.run_id)}`}>{item.run_id}</Link>],
              ["said by", item.speaker !== "user" && item.speaker],
              ["about", item.subject && (isAdmin() ? <Link to="/ui/facts" settings={{ subject: item.subject, as_user: item.user_id }}>{about(item)}</Link> : about(item))],
              ["predicate", item.predicate],
              ["object", item.object],
              ["category", item.category],
              ["confidence", item.confidence !== null ? item.confidence.toFixed(2) : null],
              ["shared by", item.shared_from],
              ["happened", <Time at={item.event_time} />],
              ["known since", <Time at={item.created_at} />],
              ["reference", item.source_ref && <ShortId id={item.source_ref} />],
              ["id", <ShortId id={item.item_id} />],
              ["metadata", Object.keys(item.metadata).length > 0 && <Data value={item.metadata} />],
            ]}
          />
        </aside>
      </div>
    </Page>
  );
}

const SCOPES: Record<Item["scope"], string> = { session: "seen in this session", user: "seen for this user", agent: "seen by this agent", tenant: "seen by everybody" };
const TIERS: Record<Item["tier"], string> = { run: "ends with its run", session: "ends with its session", recent: "fades unless recalled", persistent: "lasts" };

function about(item: Item): string {
  return item.subject === "user" ? (item.user_id ?? "the user") : (item.subject ?? "");
}

/** Kinds that say what holds; others tell what was said or done once. */
const TIMELESS = new Set<Item["kind"]>(["fact", "procedure", "entry", "document_chunk"]);

function sentence(item: Item, forecast: Forecast | undefined): string {
  const truth = item.superseded_by ? "Superseded by a newer version" : item.invalid_at ? `No longer true since ${onDay(item.invalid_at)}` : `${TIMELESS.has(item.kind) ? "True since" : "Of"} ${onDay(item.valid_at)}`;
  if (!forecast) return `${truth}.`;
  const use = forecast.accesses ? `recalled ${several(forecast.accesses, "time")}, last ${ago(forecast.last_at ?? "")}` : "never recalled yet";
  const future = forecast.is_pinned ? "pinned: only a person ends it" : forecast.archive_at ? `archived around ${onDay(forecast.archive_at)} unless it is recalled` : forecast.tier === "persistent" ? "stays until something ends it" : `ends with its ${forecast.tier}`;
  return `${truth}; ${use}; ${future}.`;
}

function Text({ item }: { item: Item }) {
  const { query } = usePlace();
  const [whole, setWhole] = useState<string>();
  const [more, setMore] = useState<number | null>(null);
  const [error, setError] = useState<ReturnType<typeof asApiError>>();
  const read = (start: number) => {
    if (!item.payload_key) return;
    call("read_tool_output", { path: { key: item.payload_key }, query: { start, length: 262_144 } }).then(
      (output) => {
        setWhole((before) => (start ? (before ?? "") : "") + output.content);
        setMore(output.next_start);
      },
      (failure) => setError(asApiError(failure)),
    );
  };
  return (
    <div class="item-said">
      <div class="memory-text" dir="auto" data-testid="text" tabIndex={0}>
        <Marked text={whole ?? item.content} question={query.get("q") ?? undefined} />
      </div>
      <p class="item-meta"><ItemState item={item} /></p>
      {item.payload_key && whole === undefined && <Button kind="quiet" onClick={() => read(0)}>This is a preview. Read the whole text</Button>}
      {more !== null && <Button kind="quiet" onClick={() => read(more)}>Read on ({bytes(more)} read)</Button>}
      {error && <ErrorBox error={error} />}
    </div>
  );
}

/** Two axes: when each version was true, and when we knew it. */
function TimeLine({ versions, current }: { versions: Item[]; current: string }) {
  const now = Date.now();
  const at = (text: string | null) => (text ? new Date(text).getTime() : now);
  const spans = versions.map((version, index) => {
    const next = versions[index + 1];
    return { version, valid: [at(version.valid_at), version.invalid_at ? at(version.invalid_at) : now], known: [at(version.created_at), version.retired_at ? at(version.retired_at) : version.superseded_by && next ? at(next.created_at) : now] };
  });
  const from = Math.min(...spans.flatMap((span) => [span.valid[0]!, span.known[0]!]));
  const until = Math.max(now, ...spans.flatMap((span) => span.valid));
  const [element, width] = useWidth<SVGSVGElement>();
  const x = (time: number) => 28 + ((time - from) / Math.max(1, until - from)) * (width - 40);
  const height = spans.length * 30 + 26;
  return (
    <Section title="Time line" aside={several(versions.length, "version")}>
      <div class="axis-key"><span><i class="valid" />true</span><span><i class="known" />known</span></div>
      <svg class="axis" ref={element} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${several(versions.length, "version")}, the first true since ${onDay(versions[0]?.valid_at ?? new Date())}`}>
        {spans.map(({ version, valid, known }, index) => (
          <g key={version.item_id} class={version.item_id === current ? "" : "old"}>
            <text x="0" y={index * 30 + 16}>{index + 1}</text>
            <rect class="valid" x={x(valid[0]!)} y={index * 30 + 4} width={Math.max(3, x(valid[1]!) - x(valid[0]!))} height="8" rx="2"><title>{`true from ${onDay(version.valid_at)} ${version.invalid_at ? `until ${onDay(version.invalid_at)}` : "on"}`}</title></rect>
            <rect class="known" x={x(known[0]!)} y={index * 30 + 15} width={Math.max(3, x(known[1]!) - x(known[0]!))} height="8" rx="2"><title>{`known from ${onDay(version.created_at)} ${version.retired_at ? `until ${onDay(version.retired_at)}` : "on"}`}</title></rect>
          </g>
        ))}
        <line class="now" x1={x(now)} x2={x(now)} y1="0" y2={height - 18} />
        <text x="28" y={height - 4}>{onDay(new Date(from))}</text>
        <text x={Math.min(x(now), width - 12)} y={height - 4} text-anchor="end">now</text>
      </svg>
      {versions.length > 1 && versions.map((version, index) => (
        <div class={`version ${version.item_id === current ? "current" : ""}`} key={version.item_id}>
          <span class="muted">{index + 1}</span>
          <Link to={itemPath(version.item_id)}><span dir="auto">{version.content.slice(0, 300)}</span></Link>
          <Time at={version.created_at} />
        </div>
      ))}
    </Section>
  );
}

function Origin({ item }: { item: Item }) {
  const provenance = useLoad(["provenance", item.item_id], (signal) => call("item_provenance", { path: { item_id: item.item_id }, signal }));
  return (
    <Show of={provenance}>
      {(data) => (
        <>
          <Section title="Comes from" aside={data.sources.length > 0 ? `${several(data.sources.length, "source")}; its evidence is ${words(data.trend)}` : undefined}>
            {data.sources.length === 0 ? <p class="muted">{origin(item)}</p> : <Items ids={data.sources.map((source) => source.item_id)} session={item.session_id} />}
          </Section>
          {data.led_to.length > 0 && <Section title="Led to" aside={several(data.led_to.length, "memory", "memories")}><Items ids={data.led_to} session={item.session_id} /></Section>}
          {data.useful + data.wrong > 0 && <p class="muted">Rated useful {several(data.useful, "time")}, wrong {several(data.wrong, "time")}.</p>}
        </>
      )}
    </Show>
  );
}

function origin(item: Item): string {
  if (item.kind === "document_chunk") return "A part of a document.";
  return `It was ${carrier(item)}${item.agent_id ? (item.trust === "agent" ? `, ${item.agent_id}` : `, with the agent ${item.agent_id}`) : ""}${item.run_id ? ", in a run" : item.session_id ? ", in a session" : ""}, and rests on no other memory.`;
}

const SHOWN = 8;

export function Items({ ids, session }: { ids: string[]; session?: string | null }) {
  const [most, setMost] = useState(SHOWN);
  return (
    <div class="rows">
      {ids.slice(0, most).map((id) => <OneItem key={id} id={id} session={session} />)}
      {ids.length > most && <Button kind="quiet" onClick={() => setMost(most + 50)}>{`${ids.length - most} more`}</Button>}
    </div>
  );
}

/** A memory by its id; one of a session is read in the session that it is shown for. */
export function OneItem({ id, session }: { id: string; session?: string | null }) {
  const as = isAdmin() || !session ? undefined : { ...acting(), session };
  const item = useLoad(["item", id, as], (signal) => call("get_item", { path: { item_id: id }, signal, as }));
  if (item.error) return <p class="muted item-row"><span>No longer there, or not yours. <ShortId id={id} /></span></p>;
  return <Show of={item} lines={1}>{(data) => <ItemRow item={shownItem(data)} />}</Show>;
}

const PLACES: Record<ItemUse["via"], string> = { recall: "recalled", context: "in a context", search: "in a search of documents" };

/** Who saw it last, and where. */
function Uses({ item }: { item: Item }) {
  const uses = useLoad(["uses", item.item_id], (signal) => call("item_uses", { path: { item_id: item.item_id }, signal }));
  return (
    <Section title="Seen by" aside={uses.data && uses.data.length > 0 ? "newest first" : undefined}>
      <Show of={uses} lines={2}>
        {(list) => list.length === 0 ? <p class="muted">Nobody has recalled it yet, and it was in no context.</p> : (
          <DataTable<ItemUse>
            label="Seen by"
            rows={list}
            keyOf={(use) => [use.user_id, use.agent_id, use.session_id, use.via].join(" ")}
            columns={[
              { title: "when", cell: (use) => <Time at={use.last_at} />, class: "nowrap" },
              { title: "how", cell: (use) => PLACES[use.via], class: "nowrap" },
              { title: "for", cell: (use) => use.user_id ?? <span class="muted">no user</span> },
              { title: "agent", cell: (use) => use.agent_id },
              { title: "session", cell: (use) => use.session_id && <Link to={`/ui/sessions/${encodeURIComponent(use.session_id)}`} settings={use.user_id ? { as_user: use.user_id } : {}}>{use.session_id}</Link> },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

function Fading({ forecast }: { forecast: Loaded<Forecast> }) {
  const data = forecast.data;
  if (!data || data.retention.length === 0) return null;
  const day = 86_400_000;
  const now = Date.now();
  const marks = data.archive_at && new Date(data.archive_at).getTime() < now + 30 * day ? [{ x: new Date(data.archive_at).getTime(), name: "archived" }] : [];
  return (
    <Section title="Fades" aside={data.is_pinned ? "pinned: it does not fade" : `importance ${data.importance.toFixed(2)}; ${share(data.retention[0] ?? 0)} left today, ${share(data.retention[30] ?? 0)} in 30 days`}>
      <LineChart
        label="What is left of it in the next 30 days"
        lines={[
          { points: data.retention.map((left, index) => ({ x: now + index * day, y: data.is_pinned ? 1 : left })) },
          { points: [{ x: now, y: 0.3 }, { x: now + 30 * day, y: 0.3 }], tone: "second" },
        ]}
        most={1}
        height={140}
        x={(value) => onDay(new Date(value))}
        y={share}
        marks={marks}
      />
      <p class="muted small">Below the dashed line it is archived. Each recall makes it stronger; pinning keeps it.</p>
    </Section>
  );
}

function AuditOf({ id }: { id: string }) {
  const audit = useLoad(["audit-of", id], (signal) => call("list_audit", { query: { subject_kind: "item", subject_id: id, limit: 20 }, signal }));
  return (
    <Section title="Audit">
      <Show of={audit}>
        {(page) => page.items.length === 0 ? <p class="muted">Nobody has changed it.</p> : (
          <div class="scroll-x"><table><tbody>{page.items.map((entry) => (
            <tr key={entry.audit_id}><td class="nowrap"><Time at={entry.at} /></td><td>{entry.action}</td><td class="muted">{entry.actor}</td><td dir="auto">{entry.reason}</td></tr>
          ))}</tbody></table></div>
        )}
      </Show>
    </Section>
  );
}

function Actions({ item, pinned, reload }: { item: Item; pinned: boolean; reload: () => void }) {
  const [doing, setDoing] = useState<Doing>(null);
  const [error, setError] = useState<ReturnType<typeof asApiError>>();
  const path = { item_id: item.item_id };
  const isOver = item.invalid_at !== null || item.superseded_by !== null;
  const canEdit = (item.kind === "fact" || item.kind === "procedure") && !isOver && item.shared_from === null;
  const run = (done: Promise<unknown>) => done.then(() => { setError(undefined); reload(); }, (failure) => setError(asApiError(failure)));
  const pin = () => run(call("pin_item", { path, body: { pinned: !pinned } }));
  useKeys([
    { key: "e", what: "edit this memory", run: () => canEdit && setDoing("edit") },
    { key: "p", what: "pin or unpin it", run: () => !isOver && pin() },
  ], [canEdit, pinned, isOver]);
  const close = () => setDoing(null);
  return (
    <div class="item-actions">
      {pinned && <div class="wide"><Badge tone="accent">pinned</Badge></div>}
      {canEdit && <div class="wide"><Button kind="main" onClick={() => setDoing("edit")}>Correct</Button></div>}
      {!isOver && <Button onClick={pin}>{pinned ? "Unpin" : "Pin"}</Button>}
      {isOver && isAdmin() && <Button kind="main" onClick={() => run(call("restore_item", { path }))}>Restore</Button>}
      <Button onClick={() => setDoing("hold")}>Hold…</Button>
      {!isOver && <Button title="Your opinion moves its confidence" onClick={() => run(call("give_feedback", { path, body: { opinion: "useful" } }))}>Useful</Button>}
      {!isOver && <Button title="Your opinion moves its confidence" onClick={() => run(call("give_feedback", { path, body: { opinion: "wrong" } }))}>Wrong</Button>}
      <div class="apart">
        {!isOver && <Button kind="danger" onClick={() => setDoing("invalidate")}>No longer true…</Button>}
        <Button kind="danger" onClick={() => setDoing("forget")}>Forget…</Button>
      </div>
      {error && <div class="wide"><ErrorBox error={error} /></div>}
      {doing === "edit" && <Edit item={item} close={close} />}
      {doing === "invalidate" && (
        <Confirm title="No longer true" action="End it" reason close={close} run={async (reason) => { await call("invalidate_item", { path, body: { reason: reason || null } }); reload(); }}>
          <p>It leaves recall and stays on record. An administrator can restore it.</p>
        </Confirm>
      )}
      {doing === "forget" && <Forget item={item} close={close} />}
      {doing === "hold" && <Holds item={item} close={close} />}
    </div>
  );
}

function Edit({ item, close }: { item: Item; close: () => void }) {
  const [text, setText] = useState(item.content);
  return (
    <Confirm title="Correct" action="Save the new version" reason close={close} run={async (reason) => {
      const saved = await call("edit_item", { path: { item_id: item.item_id }, body: { content: text, reason: reason || null } });
      go(address(itemPath(saved.id)));
    }}>
      <label class="field">
        <span>New text. The old version stays on record and is superseded.</span>
        <textarea value={text} autoFocus dir="auto" onInput={(event) => setText(event.currentTarget.value)} />
      </label>
    </Confirm>
  );
}

function Forget({ item, close }: { item: Item; close: () => void }) {
  const path = { item_id: item.item_id };
  const planned = useLoad(["forget-plan", item.item_id], () => call("forget", { path, body: { dry_run: true } }));
  return (
    <Confirm title="Forget for good" action="Forget" word="forget" danger reason close={close} run={async (reason) => {
      await call("forget", { path, body: { reason: reason || null } });
      go(address("/ui/memories"));
    }}>
      <p>The text is redacted everywhere, with its vectors and everything derived from it. This cannot be undone.</p>
      <Show of={planned} lines={2}>
        {(plan) => {
          const others = plan.item_ids.filter((id) => id !== item.item_id);
          return others.length === 0 ? <p>Nothing else goes with it.</p> : <><p>With it {others.length === 1 ? "goes" : "go"} {several(others.length, "other memory", "other memories")}{plan.summaries_renewed ? `, and ${several(plan.summaries_renewed, "summary", "summaries")} will be written anew` : ""}:</p><Items ids={others} session={item.session_id} /></>;
        }}
      </Show>
    </Confirm>
  );
}

function Holds({ item, close }: { item: Item; close: () => void }) {
  const [action, setAction] = useState("");
  const [error, setError] = useState<ReturnType<typeof asApiError>>();
  const path = { item_id: item.item_id };
  const holds = useLoad(["holds", item.item_id], (signal) => call("list_holds", { path, signal }));
  const run = (done: Promise<unknown>) => done.then(() => { setAction(""); setError(undefined); holds.reload(); }, (failure) => setError(asApiError(failure)));
  return (
    <Dialog title="Holds" close={close}>
      <p>While an action holds a memory, nothing may remove it: neither decay, nor forgetting, nor the erasure of its user.</p>
      <Show of={holds}>
        {(list) => list.length === 0 ? <p class="muted">No action holds it.</p> : <table><tbody>{list.map((hold) => <tr key={hold.action_id}><td>{hold.action_id}</td><td><Time at={hold.created_at} /></td><td class="right">{isAdmin() && <Button kind="quiet" onClick={() => run(call("release", { path: { ...path, action_id: hold.action_id } }))}>Release</Button>}</td></tr>)}</tbody></table>}
      </Show>
      <form onSubmit={(event) => { event.preventDefault(); run(call("hold", { path: { ...path, action_id: action.trim() } })); }}>
        <label class="field"><span>Hold it for (your own id of the case)</span><input value={action} onInput={(event) => setAction(event.currentTarget.value)} /></label>
        {error && <ErrorBox error={error} />}
        <div class="dialog-foot"><Button kind="quiet" onClick={close}>Close</Button><Button kind="main" type="submit" disabled={!action.trim()}>Hold</Button></div>
      </form>
    </Dialog>
  );
}
