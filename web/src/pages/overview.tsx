// Overview: how much there is, how it is, and what happened lately. It follows the change feed.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/client";
import type { Activity, Event as Change, JobCounts, PastRuling, Proposal, ScheduledJob, Stats } from "../api/schema";
import { forTenant, isAdmin, me } from "../frame/session";
import { Bars, LineChart } from "../kit/charts";
import { Lines } from "../kit/data";
import { bytes, count, milliseconds, ofThisWeek, onDay, ruleName, several, share, words } from "../kit/format";
import { inOneLine, itemPath, ItemRow, shownItem } from "../kit/item";
import { usePages } from "../kit/list";
import { useEvery, useLoad } from "../kit/load";
import { Link } from "../kit/router";
import { Badge, Button, Empty, Figure, kindName, Page, Section, Show, Time } from "../kit/ui";

const DAY = 86_400_000;
const MOST_CHANGES = 12;
const MOST_RULINGS = 100;

export default function Overview() {
  return isAdmin() ? <TenantOverview /> : <OwnOverview />;
}

function sentence(stats: Stats, activity: Activity | undefined, rulings: PastRuling[] | undefined): string {
  const live = Object.values(stats.by_kind).reduce((sum, value) => sum + value, 0);
  const parts = [several(live, "live memory", "live memories")];
  parts.push(stats.pending_embeddings ? `${count(stats.pending_embeddings)} wait to be embedded` : "everything is embedded");
  if (activity?.recall) parts.push(`recall p95 ${milliseconds(activity.recall.p95_ms)}`);
  if (rulings) {
    const week = ofThisWeek(rulings);
    const undone = week.filter((ruling) => ruling.is_undone).length;
    parts.push(week.length ? `the judge ended ${week.length === MOST_RULINGS ? "at least " : ""}${several(week.length, "fact")} this week, ${undone || "none"} undone` : "the judge ended nothing this week");
  }
  if (stats.dead_letters) parts.push(`${several(stats.dead_letters, "piece")} of work failed for good`);
  return `${parts.join("; ")}.`;
}

function TenantOverview() {
  const as = {};
  const stats = useLoad(["stats"], (signal) => call("memory_stats", { signal, as }));
  const activity = useLoad(["activity"], (signal) => call("memory_activity", { signal, as }));
  const rulings = useLoad(["overview-rulings"], (signal) => call("list_rulings", { query: { limit: MOST_RULINGS }, signal, as }));
  const jobs = useLoad(["job-counts"], (signal) => call("job_counts", { signal, as }));
  const reports = useLoad(["reports"], (signal) => call("list_reports", { query: { limit: 1 }, signal, as }));
  const proposals = useLoad(["overview-proposals"], (signal) => call("list_proposals", { query: { limit: 4 }, signal, as }));
  const schedule = useLoad(["schedule"], (signal) => call("job_schedule", { signal, as }));
  const newest = useLoad(["overview-newest"], (signal) => call("list_items", { query: { limit: 5 }, signal, as }));
  const reload = () => [stats, activity, rulings, jobs, proposals].forEach((each) => each.reload());
  useEvery(60, reload);
  const changes = useChanges(reload);
  return (
    <Page title="Overview" says={stats.data && sentence(stats.data, activity.data, rulings.data?.items)}>
      <Show of={stats} lines={8}>{(data) => data.items === 0 ? <FirstSteps /> : <Figures stats={data} activity={activity.data} />}</Show>
      {stats.data?.items !== 0 && <div class="columns">
        <Section title="New memories a day" aside="last 30 days"><Show of={activity} lines={4}>{(data) => <Growth activity={data} />}</Show></Section>
        <Section title="By kind"><Show of={stats}>{(data) => <Bars values={data.by_kind} tone={(kind) => `kind kind-${kind}`} href={(kind) => <Link to="/ui/memories" settings={{ kind }}>{kindName(kind)}</Link>} />}</Show></Section>
        <Section title="By layer" aside="how long it lasts"><Show of={stats}>{(data) => <Bars sorted={false} values={byLayer(data)} href={(layer) => <Link to="/ui/memories" settings={LAYERS[layer]?.[1]}>{layer}</Link>} />}</Show></Section>
        <Section title="By scope" aside="who sees it"><Show of={stats}>{(data) => <Bars values={data.by_scope} href={(scope) => <Link to="/ui/memories" settings={{ scope }}>{scope}</Link>} />}</Show></Section>
      </div>}
      <div class="columns">
        <div class="stack">
          <Section title="Ended by the judge this week" aside={<Link to="/ui/facts" settings={{ tab: "rulings" }}>all rulings</Link>}>
            <Show of={rulings}>{(page) => ofThisWeek(page.items).length === 0 ? <p class="muted">Nothing this week. When a newer fact contradicts an older one, the older one ends, and you can undo it.</p> : <div class="rows">{ofThisWeek(page.items).slice(0, 5).map((ruling) => <RulingRow key={ruling.ruling_id} ruling={ruling} />)}</div>}</Show>
          </Section>
          <Section title="Happening now" aside={changes.isOpen ? "live" : "connecting…"}>
            <div class="rows">
              {changes.list.map((change) => <ChangeRow key={change.position} change={change} />)}
              {changes.list.length < 5 && newest.data?.items.filter((item) => !changes.list.some((change) => change.subject_id === item.item_id)).slice(0, 5 - changes.list.length).map((item) => <ItemRow key={item.item_id} item={shownItem(item)} />)}
            </div>
            {changes.list.length === 0 && newest.data?.items.length === 0 && <p class="muted">Each change of memory appears here as it happens.</p>}
          </Section>
        </div>
        <div class="stack">
          <Section title="Last reviews" aside={<Link to="/ui/facts" settings={{ tab: "proposals" }}>all proposals</Link>}>
            <Reviewed schedule={schedule.data} />
            <Show of={proposals}>{(page) => page.items.length === 0 ? <p class="muted">No review has proposed a change yet.</p> : <div class="rows">{page.items.map((proposal) => <ProposalRow key={proposal.proposal_id} proposal={proposal} />)}</div>}</Show>
          </Section>
          <Section title="Background work" aside={<Link to="/ui/operate">all work</Link>}><Show of={jobs}>{(data) => <Work jobs={data} />}</Show></Section>
          <Section title="By state"><Show of={stats}>{(data) => data.items === 0 ? <p class="muted">Live, archived, superseded, ended and forgotten memories are counted here.</p> : <Bars values={data.by_state} href={(state) => state === "forgotten" ? state : <Link to="/ui/memories" settings={{ state: state === "live" ? undefined : state }}>{state}</Link>} />}</Show></Section>
          <Section title="Daily brief" aside={reports.data?.items[0] && <Time at={reports.data.items[0].created_at} />}>
            <Show of={reports}>{(page) => page.items[0] ? <Lines untitled text={page.items[0].body} /> : <p class="muted">The first daily brief is written at night.</p>}</Show>
          </Section>
        </div>
      </div>
    </Page>
  );
}

/** Each layer by its name, with its number and the filters that show it. */
const LAYERS: Record<string, [string, Record<string, string>]> = {
  working: ["L1", { tier: "session" }],
  recent: ["L2", { tier: "recent" }],
  persistent: ["L3", { tier: "persistent" }],
  reference: ["L4", { kind: "document_chunk" }],
};

function byLayer(stats: Stats): Record<string, number> {
  return Object.fromEntries(Object.entries(LAYERS).map(([name, [layer]]) => [name, stats.by_layer[layer] ?? 0]));
}

function FirstSteps() {
  return <Empty title="Nothing is remembered yet." command={forTenant(`recordari remember "Ana prefers tea" --user ana\nrecordari recall "What does Ana drink?" --user ana`)}>Remember something, and watch it arrive here:</Empty>;
}

const QUOTAS: Record<string, string> = { items: "of the memories", bytes: "of the storage", writes_per_day: "of the writes a day" };

function Figures({ stats, activity }: { stats: Stats; activity: Activity | undefined }) {
  const live = Object.values(stats.by_kind).reduce((sum, value) => sum + value, 0);
  const recall = activity?.recall;
  const [fullest, used] = Object.entries(stats.quota.shares).sort((one, other) => other[1] - one[1])[0] ?? [undefined, 0];
  return (
    <div class="figures">
      <Figure label="live memories" value={count(live)} note={bytes(stats.content_bytes)} />
      <Figure label="recall p50 / p95" value={recall ? `${Math.round(recall.p50_ms)} / ${milliseconds(recall.p95_ms)}` : "–"} note={recall ? `${recall.per_minute.toFixed(1)} a minute, last hour` : "no recall in the last hour"} />
      <Figure label="open sessions" value={count(stats.others.open_sessions)} note={`${count(stats.others.closed_sessions)} closed, ${several(stats.others.runs, "run")}`} />
      <Figure label="recall by meaning" value={!stats.embedding_model ? "off" : stats.pending_embeddings ? "degraded" : "complete"} note={!stats.embedding_model ? "by words alone" : stats.pending_embeddings ? `${count(stats.pending_embeddings)} to embed` : stats.embedding_model.split("@")[0]} tone={stats.pending_embeddings > 1000 ? "warn" : undefined} />
      <Figure label="pinned / held" value={`${count(stats.pinned)} / ${count(stats.others.holds)}`} note="kept from fading" />
      <Figure label="dead letters" value={count(stats.dead_letters)} note={stats.dead_letters ? <Link to="/ui/operate">replay them</Link> : "none"} tone={stats.dead_letters ? "bad" : undefined} />
      <Figure label="quota used" value={fullest ? share(used) : "no limit"} note={fullest ? QUOTAS[fullest] ?? words(fullest) : `${count(stats.quota.usage.writes)} writes today`} tone={used > 0.8 ? "warn" : undefined} />
    </div>
  );
}

function Growth({ activity }: { activity: Activity }) {
  const byDay = new Map(activity.days.map((day) => [day.day, Object.values(day.new).reduce((sum, value) => sum + value, 0)]));
  const today = Math.floor(Date.now() / DAY) * DAY;
  const points = Array.from({ length: 31 }, (_, index) => today - (30 - index) * DAY).map((time) => ({ x: time, y: byDay.get(new Date(time).toISOString().slice(0, 10)) ?? 0 }));
  const sum = points.reduce((total, point) => total + point.y, 0);
  return (
    <>
      <LineChart bars label={`${count(sum)} new memories in 30 days`} lines={[{ points }]} height={150} x={(value) => onDay(new Date(value))} y={(value) => count(Math.round(value))} />
      <p class="muted small">{several(sum, "new memory", "new memories")} in 30 days, {count(points.at(-1)?.y ?? 0)} today.</p>
    </>
  );
}

function RulingRow({ ruling }: { ruling: PastRuling }) {
  return (
    <Link to={itemPath(ruling.item_id)} class="item-row">
      <span class="item-text" dir="auto"><span class={ruling.is_undone ? "" : "ended-text"}>{ruling.content ?? "forgotten"}</span> → {ruling.successor ?? "forgotten"}</span>
      <span class="item-meta"><Badge tone="accent">{ruleName(ruling.rule)}</Badge>{ruling.is_undone && <Badge tone="good">undone</Badge>}<Time at={ruling.at} /></span>
    </Link>
  );
}

function ProposalRow({ proposal }: { proposal: Proposal }) {
  return (
    <Link to="/ui/facts" settings={{ tab: "proposals", status: proposal.status }} class="item-row">
      <span class="item-text" dir="auto">{proposal.items[0]?.content ?? "forgotten"}</span>
      <span class="item-meta"><Badge tone="accent">{proposal.kind}</Badge><Badge tone={proposal.status === "open" ? "warn" : "plain"}>{proposal.status === "open" ? "waits for you" : proposal.status}</Badge><Time at={proposal.proposed_at} /></span>
    </Link>
  );
}

function Reviewed({ schedule }: { schedule: ScheduledJob[] | undefined }) {
  const review = schedule?.find((job) => job.job === "review_memory");
  return review ? <p class="muted small">{review.last_at ? <>Reviewed <Time at={review.last_at} />; the next review is due <Time at={review.next_at} />.</> : <>The next review of all facts is due <Time at={review.next_at} />.</>}</p> : null;
}

const GONE = new Set(["item.forgotten", "item.removed"]);

function ChangeRow({ change }: { change: Change }) {
  const isThere = change.type.startsWith("item.") && !GONE.has(change.type);
  const item = useLoad(isThere ? ["item", change.subject_id] : null, (signal) => call("get_item", { path: { item_id: change.subject_id }, signal, as: {} }));
  const what = words(change.type.replace("item.", "").replace(".", " "));
  const text = <><span class="item-text" dir="auto">{item.data ? inOneLine(item.data.content) : isThere && !item.error ? "…" : `A ${change.kind ? kindName(change.kind) : "user"} was ${what}`}</span><span class="item-meta"><Badge tone="accent">{what}</Badge>{item.data && <strong>{item.data.user_id}</strong>}<Time at={change.at} /></span></>;
  return isThere ? <Link to={itemPath(change.subject_id)} class="item-row">{text}</Link> : <div class="item-row">{text}</div>;
}

function told(numbers: Record<string, number>): string {
  return Object.entries(numbers).filter(([, number]) => number > 0).map(([name, number]) => `${count(number)} ${words(name)}`).join(", ");
}

function Work({ jobs }: { jobs: JobCounts }) {
  const [waiting, parked, ran] = [told(jobs.outbox_pending), told(jobs.outbox_parked), told(jobs.jobs)];
  return <p>{waiting ? `Waiting: ${waiting}.` : "Nothing waits."}{parked && ` Failed for good: ${parked}.`} {ran ? `Jobs: ${ran}.` : "No scheduled job has run yet."}</p>;
}

/** The change feed; `changed` is called now and then while changes come. */
function useChanges(changed: () => void): { list: Change[]; isOpen: boolean } {
  const [list, setList] = useState<Change[]>([]);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const source = new EventSource("/v1/events");
    let timer: ReturnType<typeof setTimeout> | undefined;
    const take = (event: MessageEvent<string>) => {
      const change = JSON.parse(event.data) as Change;
      setList((before) => [change, ...before.filter((each) => each.position !== change.position)].slice(0, MOST_CHANGES));
      timer ??= setTimeout(() => {
        timer = undefined;
        changed();
      }, 3000);
    };
    source.onopen = () => setOpen(true);
    source.onerror = () => setOpen(false);
    source.onmessage = take;
    for (const type of ["item.created", "item.changed", "item.superseded", "item.invalidated", "item.restored", "item.archived", "item.forgotten", "item.removed", "user.erased"]) source.addEventListener(type, take as EventListener);
    return () => {
      clearTimeout(timer);
      source.close();
    };
  }, []);
  return { list, isOpen };
}

/** What a person who is no administrator sees: what is known about them. */
function OwnOverview() {
  const user = me().user_id;
  const profile = useLoad(user ? ["own-profile", user] : null, (signal) => call("user_profile", { path: { user_id: user ?? "" }, signal }).catch(() => null));
  const pages = usePages(["own"], (cursor, signal) => call("list_items", { query: { kind: ["fact"], scope: user ? "user" : undefined, limit: 50, cursor }, signal }));
  return (
    <Page title={user ? "What is known about you" : "Overview"} says={user ? "You may correct, end or forget each of these. Open one to see where it comes from and who has seen it." : "Choose a user or agent at the top right to see what they see."}>
      {profile.data?.content && <Section title="In short"><Lines text={profile.data.content} /></Section>}
      <Section title={user ? "Facts about you" : "Facts"} aside={`${pages.done ? "" : "the newest "}${several(pages.rows.length, "fact")}`}>
        {pages.rows.length === 0 && !pages.loading ? <Empty title="Nothing is known yet." /> : <div class="rows">{pages.rows.map((item) => <ItemRow bare key={item.item_id} item={{ ...shownItem(item), user_id: null }} aside={item.category && <span>{words(item.category)}</span>} />)}</div>}
        {!pages.done && !pages.loading && <Button kind="quiet" onClick={pages.more}>More</Button>}
      </Section>
      <Section title="Everything else"><p><Link to="/ui/memories">All your memories</Link>, with the messages that these facts come from, and <Link to="/ui/sessions">your conversations</Link>.</p></Section>
    </Page>
  );
}
