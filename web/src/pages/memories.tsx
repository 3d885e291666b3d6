// Memories: all of them newest first, or those that answer a question. Every filter is in the address.
import { call } from "../api/client";
import type { AskedScope, Item, ItemState, Kind, RecalledItem, Trust } from "../api/schema";
import { forTenant, isAdmin, me } from "../frame/session";
import { count, foundBy, several } from "../kit/format";
import { itemPath, itemSettings, ItemRow, shownItem } from "../kit/item";
import { List, usePages } from "../kit/list";
import { useLoad, useQuiet } from "../kit/load";
import { address, changeSettings, go, usePlace } from "../kit/router";
import { Button, Check, Choice, Empty, Filters, KINDS, kindName, Page, Show, TextField } from "../kit/ui";

const HEIGHT = 56;
const MOST_NAMED = 8; // users to choose from
const MOST_FOUND = 50; // the most that recall gives

export default function Memories() {
  const { query } = usePlace();
  const question = query.get("q") ?? "";
  const stats = useLoad(isAdmin() ? ["memories-stats"] : null, (signal) => call("memory_stats", { signal, as: {} }));
  const live = stats.data && Object.values(stats.data.by_kind).reduce((sum, value) => sum + value, 0);
  const all = live === undefined ? "Everything that is remembered, newest first." : `${several(live, "live memory", "live memories")} in the tenant, newest first.`;
  return (
    <Page title="Memories" says={question.trim() ? "What recall finds for the question, best first." : `${all} Type a question to recall.`}>
      <div class="ask" role="search">
        <input value={question} type="search" aria-label="Question" placeholder="What do you want to find?" spellcheck={false} autocomplete="off" onInput={(event) => set("q")(event.currentTarget.value)} />
      </div>
      <MemoryFilters />
      {question.trim() ? <Recalled /> : <All />}
    </Page>
  );
}

const SETTINGS = ["kind", "scope", "tier", "trust", "state", "session", "since", "until", "pinned", "as_user", "as_agent"];

/** Whose memory is shown: the same as "acting as" at the top, applied when the field is left. */
function Whose({ name, label, list }: { name: "as_user" | "as_agent"; label: string; list: string[] | undefined }) {
  const { query } = usePlace();
  return (
    <label class="field">
      <span>{label}</span>
      <input value={query.get(name) ?? ""} list={`whose-${name}`} placeholder={name === "as_user" ? "all users" : "any agent"} spellcheck={false} autocomplete="off" onChange={(event) => changeSettings({ [name]: event.currentTarget.value.trim() })} />
      <datalist id={`whose-${name}`}>{list?.map((each) => <option key={each} value={each} />)}</datalist>
    </label>
  );
}

function set(name: string) {
  return (value: string) => changeSettings({ [name]: value }, { replace: true });
}

function moment(day: string | null): string | undefined {
  return day ? new Date(`${day}T00:00`).toISOString() : undefined;
}

function MemoryFilters() {
  const { query } = usePlace();
  const has = (name: string) => query.get(name) ?? "";
  const asked = has("q").trim() !== "";
  const bound = me();
  const users = useLoad(isAdmin() && !bound.user_id ? ["acting-users"] : null, (signal) => call("list_users", { query: { limit: 100 }, signal, as: {} }));
  const agents = useLoad(isAdmin() && !bound.agent_id ? ["acting-agents"] : null, (signal) => call("list_agents", { query: { limit: 100 }, signal, as: {} }));
  return (
    <Filters role="search" chosen={SETTINGS.filter((name) => has(name)).length}>
      <Choice label="Kind" value={has("kind") as Kind} any="all kinds" options={KINDS.map((kind) => [kind, kindName(kind)])} onChange={set("kind")} />
      <Choice label="Scope" value={has("scope") as AskedScope} any="any scope" options={["session", "user", "agent", "tenant"]} onChange={set("scope")} />
      <Choice label="Tier" value={has("tier") as Item["tier"]} any="any tier" options={["run", "session", "recent", "persistent"]} onChange={set("tier")} />
      <Choice label="Trust" value={has("trust") as Trust} any="any trust" options={["user", "agent", "tool", "document", "external"]} onChange={set("trust")} />
      {isAdmin() && <Choice label="State" value={has("state") as ItemState} any="live" options={[["superseded", "superseded"], ["invalid", "ended"], ["archived", "archived"], ["any", "any state"]]} onChange={set("state")} />}
      {isAdmin() && !bound.user_id && <Whose name="as_user" label="User" list={users.data?.items.map((user) => user.user_id)} />}
      {isAdmin() && !bound.agent_id && <Whose name="as_agent" label="Agent" list={agents.data?.items.map((agent) => agent.agent_id)} />}
      <TextField label="Session" value={has("session")} placeholder="any session" onInput={set("session")} />
      <TextField label="From" type="date" value={has("since")} onInput={set("since")} />
      <TextField label="Until" type="date" value={has("until")} onInput={set("until")} />
      {!asked && <Check label="pinned" checked={has("pinned") === "1"} onChange={(checked) => set("pinned")(checked ? "1" : "")} />}
    </Filters>
  );
}

function All() {
  const { query } = usePlace();
  const text = (name: string) => query.get(name) || undefined;
  const filters = {
    kind: text("kind") ? [text("kind") as Kind] : undefined,
    scope: text("scope") as Item["scope"] | undefined,
    trust: text("trust") as Trust | undefined,
    tier: text("tier") as Item["tier"] | undefined,
    session_id: text("session"),
    state: text("state") as ItemState | undefined,
    subject: text("subject"),
    category: text("category"),
    pinned: text("pinned") === "1" ? true : undefined,
    since: moment(query.get("since")),
    until: moment(query.get("until")),
  };
  const pages = usePages<Item>(["memories", filters], (cursor, signal) => call("list_items", { query: { ...filters, limit: 100, cursor }, signal }));
  const isFiltered = Object.values(filters).some((value) => value !== undefined);
  return (
    <List
      pages={pages}
      height={HEIGHT}
      label="Memories"
      keyOf={(item) => item.item_id}
      row={(item) => <ItemRow item={shownItem(item)} />}
      open={(item) => go(address(itemPath(item.item_id), itemSettings(item)))}
      empty={
        isFiltered ? (
          <Empty title="Nothing fits these filters." />
        ) : (
          <Empty title="Nothing is remembered yet." command={forTenant(`recordari remember "Ana prefers tea" --user ana`)}>
            What your agents remember appears here as it is written. Try one:
          </Empty>
        )
      }
    />
  );
}

/** Recall looks at what somebody may see; an administrator who names no user sees what belongs to none. */
export function NobodyNamed() {
  const { query } = usePlace();
  const isNobody = isAdmin() && !query.get("as_user") && !me().user_id;
  const users = useLoad(isNobody ? ["acting-users"] : null, (signal) => call("list_users", { query: { limit: 100 }, signal, as: {} }));
  if (!isNobody) return null;
  const some = users.data?.items.slice(0, MOST_NAMED) ?? [];
  return (
    <div class="note">
      You act for no user, so recall finds only what belongs to the whole tenant. {some.length > 0 ? "Ask as a user:" : "Choose a user at the top right."}
      {some.length > 0 && <span class="note-choices">{some.map((user) => <Button key={user.user_id} onClick={() => changeSettings({ as_user: user.user_id })}>{user.user_id}</Button>)}{users.data!.items.length > some.length && <span>or another one, at the top right</span>}</span>}
    </div>
  );
}

/** Recall ranks everything that may be seen; these filters choose among what it found. */
function fits(item: RecalledItem, by: { tier: string | null; trust: string | null; session: string | null; state: string | null }): boolean {
  if (by.trust && item.trust !== by.trust) return false;
  if (by.tier && item.tier !== by.tier) return false;
  if (by.session && item.session_id !== by.session) return false;
  if (by.state === "archived") return item.archived;
  if (by.state === "superseded" || by.state === "invalid") return item.invalid_at !== null;
  return true;
}

function Recalled() {
  const { query } = usePlace();
  const question = useQuiet((query.get("q") ?? "").trim(), 180);
  const kind = query.get("kind") as Kind | null;
  const narrow = { tier: query.get("tier"), trust: query.get("trust"), session: query.get("session"), state: query.get("state") };
  const isNarrowed = Boolean(narrow.tier || narrow.trust || narrow.session || (narrow.state && narrow.state !== "any"));
  const body = {
    query: question,
    top_k: isNarrowed ? MOST_FOUND : 20,
    source_kinds: kind ? [kind] : undefined,
    scope: (query.get("scope") || undefined) as AskedScope | undefined,
    since: moment(query.get("since")),
    until: moment(query.get("until")),
    include_superseded: (narrow.state ?? "") !== "" || undefined,
  };
  const found = useLoad(question ? ["recall", body] : null, (signal) => call("recall", { body, signal }));
  const rows = (found.data?.items ?? []).filter((item) => fits(item, narrow));
  const pages = { rows, done: true, error: found.error, loading: found.loading, more: () => undefined, reload: found.reload };
  return (
    <Show of={found} lines={8}>
      {(answer) => (
        <>
          <NobodyNamed />
          {answer.degraded && <div class="note">Something is not embedded yet: words are complete, meaning is not.</div>}
          <p class="muted small">
            {rows.length < answer.items.length ? `${count(rows.length)} of the ${several(answer.items.length, "best memory", "best memories")} fit your filters.` : `${several(answer.total, "memory", "memories")} found.`} <a href={address("/ui/playground", { q: question })}>Why these?</a>
          </p>
          <List<RecalledItem>
            pages={pages}
            height={HEIGHT}
            label="Memories found"
            keyOf={(item) => item.id}
            row={(item) => <ItemRow item={shownItem(item)} question={question} aside={item.found_by.length > 0 && <span class="wide-only">{foundBy(item.found_by)}</span>} />}
            open={(item) => go(address(itemPath(item.id), itemSettings(item, question)))}
            empty={<Empty title="Nothing answers this.">Ask with other words, widen the filters, or act for another user (top right): recall shows only what that user may see.</Empty>}
          />
        </>
      )}
    </Show>
  );
}
