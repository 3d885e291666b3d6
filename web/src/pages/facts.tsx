// Facts: by subject and category; what the judge ended, with undo; and changes that wait for a person.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Item, PastRuling, Proposal, ProposalItem } from "../api/schema";
import { forTenant } from "../frame/session";
import { Diff } from "../kit/diff";
import { firstLine, ofThisWeek, onDay, ruleName, several, words } from "../kit/format";
import { carrier, itemPath, ItemRow, shownItem } from "../kit/item";
import { List, usePages } from "../kit/list";
import { asApiError, useLoad } from "../kit/load";
import { address, changeSettings, go, Link, usePlace } from "../kit/router";
import { useAction } from "../kit/table";
import { Tabs } from "../kit/tabs";
import { Badge, Button, Choice, Empty, ErrorBox, Page, Section, TextField, Time } from "../kit/ui";
import "./facts.css";

const PATH = "/ui/facts";

export default function Facts() {
  const { query } = usePlace();
  const tab = query.get("tab") ?? "";
  const waiting = useLoad(["proposals-open"], (signal) => call("list_proposals", { query: { status: "open", limit: 100 }, signal }));
  const rulings = useLoad(["rulings-week"], (signal) => call("list_rulings", { query: { limit: 100 }, signal }));
  const week = ofThisWeek(rulings.data?.items ?? []);
  const undone = week.filter((ruling) => ruling.is_undone).length;
  const says = rulings.data && waiting.data && `The judge ended ${several(week.length, "fact")} this week, ${undone || "none"} undone; ${waiting.data.items.length ? several(waiting.data.items.length, "proposal waits", "proposals wait") : "nothing waits"} for you.`;
  return (
    <Page title="Facts" says={says}>
      <Tabs path={PATH} tabs={[["", "Facts"], ["rulings", "Rulings"], ["proposals", `Proposals${waiting.data?.items.length ? ` (${waiting.data.items.length})` : ""}`]]} />
      {tab === "rulings" ? <Rulings reload={rulings.reload} /> : tab === "proposals" ? <Proposals reload={waiting.reload} /> : <AllFacts />}
    </Page>
  );
}

function AllFacts() {
  const { query } = usePlace();
  const subject = query.get("subject") ?? "";
  const category = query.get("category") ?? "";
  const state = (query.get("state") || undefined) as "superseded" | "invalid" | "any" | undefined;
  const filters = { kind: ["fact" as const], subject: subject || undefined, category: category || undefined, state: subject ? (state ?? "any") : state };
  const pages = usePages<Item>(["facts", filters], (cursor, signal) => call("list_items", { query: { ...filters, limit: 100, cursor }, signal }));
  const set = (name: string) => (value: string) => changeSettings({ [name]: value }, { replace: true });
  return (
    <>
      <div class="filters">
        <TextField label="Subject" value={subject} placeholder="all" list="known-subjects" onInput={set("subject")} />
        <TextField label="Category" value={category} placeholder="all" list="known-categories" onInput={set("category")} />
        <Known id="known-subjects" of={pages.rows.map((item) => item.subject)} />
        <Known id="known-categories" of={pages.rows.map((item) => item.category)} />
        <Choice label="State" value={state ?? ""} any={subject ? "any state" : "live"} options={["superseded", ["invalid", "ended"], ["any", "any state"]]} onChange={set("state")} />
      </div>
      {subject ? <SubjectLine facts={pages.rows} /> : <Subjects facts={pages.rows} />}
      <List pages={pages} height={56} label="Facts" keyOf={(item) => item.item_id} row={(item) => <ItemRow bare item={shownItem(item)} aside={<>{item.category && <span>{words(item.category)}</span>}{item.subject && item.subject !== "user" && <span>about {item.subject}</span>}<span class="wide-only">{carrier(item)}</span></>} />} open={(item) => go(address(itemPath(item.item_id)))} empty={<Empty title="No facts yet." command={forTenant(`recordari remember "Ana lives in Porto" --user ana`)}>Facts are taken from messages, or remembered by agents.</Empty>} />
    </>
  );
}

/** Words to choose from while you type. */
function Known({ id, of }: { id: string; of: (string | null)[] }) {
  return <datalist id={id}>{[...new Set(of)].map((value) => value && <option key={value} value={value} />)}</datalist>;
}

const MOST_SUBJECTS = 12;

/** Those that several facts are about, each with a link to its time line. */
function Subjects({ facts }: { facts: Item[] }) {
  const all = new Map<string, { facts: number; settings: { subject: string; as_user?: string } }>();
  for (const { subject, user_id } of facts) {
    const name = subject === "user" ? user_id : subject;
    if (!subject || !name) continue;
    const settings = subject === "user" ? { subject, as_user: name } : { subject };
    all.set(name, { facts: (all.get(name)?.facts ?? 0) + 1, settings });
  }
  const subjects = [...all].filter(([, { facts }]) => facts > 1).sort(([, one], [, other]) => other.facts - one.facts);
  if (subjects.length === 0) return null;
  return <p class="subjects"><span class="muted">Time line of</span>{subjects.slice(0, MOST_SUBJECTS).map(([name, { settings }]) => <Link key={name} to={PATH} settings={settings}><span dir="auto">{name}</span></Link>)}</p>;
}

/** When each fact about a subject was true. */
function SubjectLine({ facts }: { facts: Item[] }) {
  const shown = facts.slice(0, 40).sort((one, other) => one.valid_at.localeCompare(other.valid_at));
  if (shown.length < 2) return null;
  const isMixed = new Set(shown.map((fact) => fact.user_id)).size > 1;
  const now = Date.now();
  const from = Math.min(...shown.map((fact) => new Date(fact.valid_at).getTime()));
  const x = (time: string | null) => (((time ? new Date(time).getTime() : now) - from) / Math.max(1, now - from)) * 100;
  return (
    <Section title="Time line of the subject" aside={several(shown.length, "fact")}>
      <div class="bars time-bars">
        <div class="bar-row muted small"><span /><span class="bar-ends"><span>{onDay(new Date(from))}</span><span>today</span></span><span /></div>
        {shown.map((fact) => (
          <div class="bar-row" key={fact.item_id}>
            <Link to={itemPath(fact.item_id)} class="bar-name" title={fact.content}><span dir="auto">{isMixed && fact.user_id ? `${fact.user_id}: ` : ""}{firstLine(fact.content, 80)}</span></Link>
            <span class="bar-track"><span class="bar-fill" style={{ marginLeft: `${x(fact.valid_at)}%`, width: `${Math.max(0.5, x(fact.invalid_at) - x(fact.valid_at))}%`, opacity: fact.invalid_at ? "0.4" : "1" }} /></span>
            <span class="bar-value small">{fact.invalid_at ? `until ${onDay(fact.invalid_at)}` : "true"}</span>
          </div>
        ))}
      </div>
    </Section>
  );
}

function Rulings({ reload }: { reload: () => void }) {
  const pages = usePages<PastRuling>(["rulings"], (cursor, signal) => call("list_rulings", { query: { limit: 50, cursor }, signal }));
  if (!pages.loading && pages.rows.length === 0) return <Empty title="The judge has ended nothing yet.">When a newer fact contradicts an older one, the older one ends. Each such ruling is listed here and can be undone.</Empty>;
  return (
    <div>
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {pages.rows.map((ruling) => <Ruling key={ruling.ruling_id} ruling={ruling} reload={() => { pages.reload(); reload(); }} />)}
      {!pages.done && !pages.loading && <Button kind="quiet" onClick={pages.more}>Earlier rulings</Button>}
    </div>
  );
}

function Ruling({ ruling, reload }: { ruling: PastRuling; reload: () => void }) {
  const [error, setError] = useState<ReturnType<typeof asApiError>>();
  const undo = () => call("undo_ruling", { path: { ruling_id: ruling.ruling_id } }).then(reload, (failure) => setError(asApiError(failure)));
  return (
    <article class="pair">
      <div class="pair-head">
        <Badge tone="accent">{ruleName(ruling.rule)}</Badge>
        <span>{ruling.judge === "offline" ? "by the built-in rules" : `by ${ruling.judge}`}</span>
        <Time at={ruling.at} />
        <div class="actions">{ruling.is_undone ? <Badge tone="good">undone</Badge> : <Button onClick={undo}>Undo</Button>}</div>
      </div>
      <Link to={itemPath(ruling.item_id)}><span class={ruling.is_undone ? "" : "ended-text"} dir="auto">{ruling.content ?? "forgotten"}</span></Link>
      <Link to={itemPath(ruling.superseded_by)}><span class="arrow">→</span> <span dir="auto">{ruling.successor ?? "forgotten"}</span></Link>
      {error && <ErrorBox error={error} />}
    </article>
  );
}

const MEANS: Record<Proposal["kind"], string> = { merge: "These say the same: keep one.", retire: "This looks out of date: end it.", promote: "This matters: keep it for good." };

function Proposals({ reload }: { reload: () => void }) {
  const { query } = usePlace();
  const status = (query.get("status") || "open") as Proposal["status"];
  const pages = usePages<Proposal>(["proposals", status], (cursor, signal) => call("list_proposals", { query: { status, limit: 50, cursor }, signal }));
  const renew = () => { pages.reload(); reload(); };
  const [error, setError] = useState<ReturnType<typeof asApiError>>();
  const review = () => call("review_memory").then(renew, (failure) => setError(asApiError(failure)));
  return (
    <>
      <div class="filters">
        <Choice label="Status" value={status} options={["open", "accepted", "rejected", "undone", "void"]} onChange={(value) => changeSettings({ status: value })} />
        <Button onClick={review}>Review memory now</Button>
      </div>
      {error && <ErrorBox error={error} />}
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {pages.rows.map((proposal) => <ProposalCard key={proposal.proposal_id} proposal={proposal} reload={renew} />)}
      {!pages.loading && pages.rows.length === 0 && <Empty title={status === "open" ? "Nothing waits for you." : `No proposal is ${status}.`}>The weekly review proposes to merge what says the same, to end what is out of date, and to keep what matters.</Empty>}
      {!pages.done && !pages.loading && <Button kind="quiet" onClick={pages.more}>More</Button>}
    </>
  );
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function ProposalCard({ proposal, reload }: { proposal: Proposal; reload: () => void }) {
  const path = { proposal_id: proposal.proposal_id };
  const { run, error, busy } = useAction();
  const decide = (verb: "accept_proposal" | "reject_proposal" | "undo_proposal") => run(() => call(verb, { path, body: {} }).then(reload));
  const [one, other] = proposal.items;
  return (
    <article class="pair">
      <div class="pair-head">
        <Badge tone="accent">{proposal.kind}</Badge>
        <span>{proposal.explanation ? capital(proposal.explanation) : MEANS[proposal.kind]}</span>
        <Time at={proposal.proposed_at} />
        <div class="actions">
          {proposal.status === "open" ? (
            <>
              <Button kind="main" disabled={busy} onClick={() => decide("accept_proposal")}>Accept</Button>
              <Button disabled={busy} onClick={() => decide("reject_proposal")}>Reject</Button>
            </>
          ) : proposal.status === "accepted" ? <Button disabled={busy} onClick={() => decide("undo_proposal")}>Undo</Button> : <Badge>{proposal.status}</Badge>}
        </div>
      </div>
      {proposal.items.map((item) => <ProposedItem key={item.item_id} item={item} />)}
      {proposal.kind === "merge" && one?.content && other?.content && one.content !== other.content && <details open><summary class="muted">difference</summary><Diff before={one.content} after={other.content} /></details>}
      {proposal.decided_at && <p class="muted small">{proposal.status} by {proposal.decided_by} <Time at={proposal.decided_at} />{proposal.reason ? `: ${proposal.reason}` : ""}</p>}
      {error && <ErrorBox error={error} />}
    </article>
  );
}

function ProposedItem({ item }: { item: ProposalItem }) {
  return (
    <div>
      <Link to={itemPath(item.item_id)} class="item-row">
        <span class="proposal-text" dir="auto">{item.content ?? "forgotten"}</span>
        <span class="item-meta">{item.ends ? <Badge tone="warn">would end</Badge> : <Badge tone="good">stays</Badge>}<span>{item.sources.length ? several(item.sources.length, "source") : "rests on no other memory"}</span></span>
      </Link>
      {item.sources.length > 0 && (
        <details class="sources">
          <summary class="muted small">what it rests on</summary>
          {item.sources.map((source) => <p key={source.item_id} class="small"><Link to={itemPath(source.item_id)}><span dir="auto">{firstLine(source.content ?? "forgotten", 200)}</span></Link> <Time at={source.event_time} /></p>)}
        </details>
      )}
    </div>
  );
}
