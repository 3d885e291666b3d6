// Playground: a question with settings, every score taken apart, what was left out; two settings side by side; and the context
// that an agent would get.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { call } from "../api/client";
import type { AskedScope, Context, Kind, RecallAnswer, RecalledItem } from "../api/schema";
import { isAdmin, me } from "../frame/session";
import { Stacked } from "../kit/charts";
import { armName, count, foundBy, milliseconds, several, words } from "../kit/format";
import { inOneLine, itemPath, itemSettings, Marked } from "../kit/item";
import { useLoad } from "../kit/load";
import { changeSettings, Link, usePlace } from "../kit/router";
import { Badge, Button, Check, Choice, Empty, Filters, KindLabel, KINDS, kindName, Page, Section, Show, TextField, Time, Unfold } from "../kit/ui";
import { NobodyNamed } from "./memories";
import "./playground.css";

interface TracedItem {
  id: string;
  score: number;
  chosen: boolean;
  cut: string | null;
  ranks: Record<string, number | null>;
  parts: Record<string, number>;
}

interface Trace {
  items: TracedItem[];
  milliseconds: Record<string, number>;
  candidates: Record<string, number>;
  scopes_left_out: Record<string, string>;
  duplicates_merged: string[];
  facts_folded: string[];
  searched_in: string;
  rerank: string;
  terms: Record<string, number>;
  interval: unknown;
}

/** What each part of a score means. Its place gives its colour: plain for the first eight, then striped, then dotted. */
const MEANS: Record<string, string> = {
  words: "words of the question that the text has; rare ones count more",
  late: "how well each word of the question is met by some word of the text",
  meaning: "how near the whole text is in meaning",
  session: "how well its whole conversation fits",
  following: "how well the text after it fits",
  entity: "names in the question that the text mentions",
  newer: "the question asks for the present, and it is newer",
  successor: "it ended what the question found",
  own_words: "the question is about the one who asks, and these are their own words",
  disclosure: "how much the speaker says about themselves",
  question: "it only asks, and tells nothing",
  speaker: "the question asks about the one who said it",
  verbatim: "it has the words that the question quotes",
  wished: "it is a standing wish about what the question asks",
  linked: "it is about a thing that a first answer named",
  folded: "the score of a fact that was taken from it",
  dated: "the question asks when, and it names a time",
  interval: "it is of about the time that the question asks about",
  inside: "it was made within that time",
  others: "how well the other parts of its document fit",
  rerank: "the opinion of the reranker",
};

const PATTERNS = ["", "striped", "dotted"];

function hue(part: string): string {
  const place = Object.keys(MEANS).indexOf(part);
  return place < 0 ? "hue-7 dotted" : `hue-${place % 8} ${PATTERNS[Math.floor(place / 8)]}`;
}

function signed(value: number): string {
  return value.toFixed(2).replace("-", "−");
}

const VIEWS = [["", "Recall"], ["context", "Context"], ["both", "Both"]] as const;

export default function Playground() {
  const { query } = usePlace();
  const [draft, setDraft] = useState(query.get("q") ?? "");
  const question = (query.get("q") ?? "").trim();
  const show = query.get("show") ?? "";
  const isTwo = query.get("compare") === "1" && !show;
  const ask = (event: Event) => {
    event.preventDefault();
    changeSettings({ q: draft.trim() });
  };
  return (
    <Page title="Playground" says={`Ask ${me().user_id ? "with any agent or session" : "as any user, agent or session"} (top right), and see why each memory was found, and what was left out.`}>
      <form class="ask" onSubmit={ask}>
        <input value={draft} aria-label="Question" placeholder="Which snacks are dangerous for her?" autoFocus onInput={(event) => setDraft(event.currentTarget.value)} />
        <Button kind="main" type="submit">Ask</Button>
      </form>
      <div class="actions">
        {VIEWS.map(([name, title]) => <button type="button" key={name} class={`button ${show === name ? "chosen" : ""}`} aria-pressed={show === name} onClick={() => changeSettings({ show: name || null })}>{title}</button>)}
        {!show && <Check label="compare two settings" checked={isTwo} onChange={(checked) => changeSettings({ compare: checked ? "1" : null })} />}
      </div>
      <NobodyNamed />
      {show === "context" ? <ContextSide question={question} /> : !question ? <Empty title="Ask something.">Every answer shows its score, part by part. Choose “compare” to try two settings at once.</Empty> : show === "both" ? <div class="sides two"><OneSide question={question} /><ContextSide question={question} /></div> : <Sides question={question} isTwo={isTwo} />}
    </Page>
  );
}

function useRecall(question: string, side: string, isWanted = true) {
  const { query } = usePlace();
  const has = (name: string) => query.get(name + side) || undefined;
  const kind = has("kind") as Kind | undefined;
  const asOf = has("as_of");
  const knownAt = has("known_at");
  const body = {
    query: question,
    top_k: Number(has("top") ?? 10),
    scope: has("scope") as AskedScope | undefined,
    source_kinds: kind ? [kind] : undefined,
    as_of: asOf ? new Date(asOf).toISOString() : undefined,
    known_at: knownAt ? new Date(knownAt).toISOString() : undefined,
    enable_rerank: has("rerank") !== "off",
    include_superseded: has("superseded") === "1" || undefined,
    explain: true,
  };
  return useLoad(isWanted ? ["play", body] : null, (signal) => call("recall", { body, signal }));
}

function Settings({ side }: { side: string }) {
  const { query } = usePlace();
  const has = (name: string) => query.get(name + side) ?? "";
  const set = (name: string) => (value: string) => changeSettings({ [name + side]: value });
  const chosen = ["scope", "kind", "top", "as_of", "known_at", "rerank", "superseded"].filter((name) => has(name)).length;
  return (
    <Filters chosen={chosen}>
      <Choice label="Scope" value={has("scope") as AskedScope} any="any" options={["session", "user", "agent", "tenant", "history"]} onChange={set("scope")} />
      <Choice label="Kinds" value={has("kind") as Kind} any="all" options={KINDS.map((kind) => [kind, kindName(kind)])} onChange={set("kind")} />
      <Choice label="Most" value={has("top")} any="10" options={["3", "5", "20"]} onChange={set("top")} />
      <TextField label="As of" type="datetime-local" value={has("as_of")} onInput={set("as_of")} />
      <TextField label="Known at" type="datetime-local" value={has("known_at")} onInput={set("known_at")} />
      <Check label="rerank" checked={has("rerank") !== "off"} onChange={(checked) => set("rerank")(checked ? "" : "off")} />
      {isAdmin() && <Check label="superseded too" checked={has("superseded") === "1"} onChange={(checked) => set("superseded")(checked ? "1" : "")} />}
    </Filters>
  );
}

function OneSide({ question }: { question: string }) {
  return <Side side="" question={question} of={useRecall(question, "")} />;
}

function Sides({ question, isTwo }: { question: string; isTwo: boolean }) {
  const first = useRecall(question, "");
  const second = useRecall(question, "_2", isTwo);
  const box = useRef<HTMLDivElement>(null);
  return (
    <div class={`sides ${isTwo ? "two" : ""}`} ref={box}>
      <Side side="" question={question} of={first} />
      {isTwo && <Side side="_2" question={question} of={second} before={first.data} />}
      {isTwo && first.data && second.data && <Moves box={box} one={first.data} other={second.data} />}
    </div>
  );
}

function Side({ side, question, of, before }: { side: string; question: string; of: ReturnType<typeof useRecall>; before?: RecallAnswer }) {
  return (
    <div class="side" data-side={side || "_1"}>
      <Settings side={side} />
      <Show of={of} lines={10}>
        {(answer) => {
          const trace = answer.trace as unknown as Trace | null;
          const traced = new Map(trace?.items.map((item) => [item.id, item]));
          const most = Math.max(0.001, ...(trace?.items ?? []).map((item) => Object.values(item.parts).reduce((sum, part) => sum + Math.max(0, part), 0)));
          return (
            <>
              {trace && <p class="muted small">{several(answer.items.length, "memory", "memories")} after {milliseconds(trace.milliseconds.total ?? 0)} on the server; {several(trace.items.length, "candidate")} ranked.</p>}
              {answer.degraded && <div class="note">Degraded: something is not embedded. Words are complete, meaning is not.</div>}
              <div>
                {answer.items.map((item, index) => <AnswerCard key={item.id} item={item} rank={index + 1} question={question} traced={traced.get(item.id)} most={most} was={before ? before.items.findIndex((other) => other.id === item.id) + 1 : undefined} />)}
                {answer.items.length === 0 && <Empty title="Nothing was found.">Try another scope, or act for the user it belongs to.</Empty>}
              </div>
              {trace && <LeftOut trace={trace} />}
            </>
          );
        }}
      </Show>
    </div>
  );
}

function AnswerCard({ item, rank, question, traced, most, was }: { item: RecalledItem; rank: number; question: string; traced?: TracedItem; most: number; was?: number }) {
  const parts = Object.entries(traced?.parts ?? {}).filter(([, value]) => Math.abs(value) >= 0.005);
  return (
    <article class="answer" data-id={item.id}>
      <div class="answer-top">
        <span class="rank">{rank}</span>
        <Link to={itemPath(item.id)} settings={itemSettings(item, question)}><span dir="auto"><Marked text={inOneLine(item.content, 600)} question={question} /></span></Link>
        {was !== undefined && (was === 0 ? <Badge tone="accent">new</Badge> : was !== rank && <Badge tone={was > rank ? "good" : "bad"}>{was > rank ? `▲ from ${was}` : `▼ from ${was}`}</Badge>)}
        <span class="score" title="Compare scores only within one answer">{item.score.toFixed(2)}</span>
      </div>
      <div class="item-meta">
        <KindLabel kind={item.source_kind} />
        <span class="wide-only">scope {item.scope}</span>
        <span class="wide-only">trust {item.trust}</span>
        {item.archived && <Badge>archived</Badge>}
        {item.invalid_at && <Badge tone="warn">ended</Badge>}
        <Time at={item.event_time} />
        {item.found_by.length > 0 && <span>{foundBy(item.found_by)}</span>}
        {item.same_as.length > 0 && <span>{several(item.same_as.length, "equal one")} left out</span>}
      </div>
      {parts.length > 0 && (
        <div class="parts" role="img" aria-label={`score ${item.score.toFixed(2)}: ${parts.map(([name, value]) => `${name} ${value.toFixed(2)}`).join(", ")}`}>
          <div class="parts-bar">{parts.map(([name, value]) => value > 0 && <span key={name} class={hue(name)} style={{ width: `${(value / most) * 100}%` }} title={`${words(name)} ${value.toFixed(3)}`} />)}</div>
          <div class="parts-key">{parts.map(([name, value]) => <span key={name} title={MEANS[name]}><i class={hue(name)} />{words(name)} {signed(value)}</span>)}</div>
        </div>
      )}
    </article>
  );
}

const PLACES: Record<string, string> = { process: "searched in the memory of the server", database: "searched in the database" };
const CUT: Record<string, string> = { top_k: "beyond the number that you asked for" };

function LeftOut({ trace }: { trace: Trace }) {
  const cut = new Map<string, string[]>();
  for (const item of trace.items) if (!item.chosen) cut.set(CUT[item.cut ?? ""] ?? words(item.cut ?? "other"), [...(cut.get(CUT[item.cut ?? ""] ?? words(item.cut ?? "other")) ?? []), item.id]);
  if (trace.duplicates_merged.length > 0) cut.set("saying the same as one above", trace.duplicates_merged);
  if (trace.facts_folded.length > 0) cut.set("shown as the message that they come from", trace.facts_folded);
  const scores = new Map(trace.items.map((item) => [item.id, item.score]));
  const scopes = Object.entries(trace.scopes_left_out);
  return (
    <>
      <Section title="Left out" aside={PLACES[trace.searched_in] ?? words(trace.searched_in)}>
        {[...cut].map(([why, ids]) => <Unfold key={why} title={`${several(ids.length, "memory", "memories")} ${why}`}>{() => <div class="rows">{ids.slice(0, 20).map((id) => <CutItem key={id} id={id} score={scores.get(id)} />)}</div>}</Unfold>)}
        {scopes.map(([scope, why]) => <p key={scope}>Scope {scope}: {why}</p>)}
        {cut.size + scopes.length === 0 && <p class="muted">Nothing was left out.</p>}
      </Section>
      <Section title="How it was found" aside={`rerank: ${words(trace.rerank)}`}>
        <p class="muted">Candidates: {Object.entries(trace.candidates).map(([arm, number]) => `${armName(arm)} ${count(number)}`).join(" · ")}</p>
        {Object.keys(trace.terms).length > 0 && <p class="muted">Words, and how rare they are: {Object.entries(trace.terms).map(([term, weight]) => `${term} ${weight.toFixed(1)}`).join(" · ")}</p>}
        <p class="muted">Time: {Object.entries(trace.milliseconds).map(([step, value]) => `${words(step)} ${milliseconds(value)}`).join(" · ")}</p>
        <Unfold title="What the parts of a score mean">{() => <dl class="facts">{Object.entries(MEANS).map(([name, means]) => <div key={name}><dt>{words(name)}</dt><dd>{means}</dd></div>)}</dl>}</Unfold>
      </Section>
    </>
  );
}

function CutItem({ id, score, why }: { id: string; score?: number; why?: string }) {
  const loaded = useLoad(["item", id], (signal) => call("get_item", { path: { item_id: id }, signal }));
  return <Link to={itemPath(id)} class="item-row"><span class="item-text" dir="auto">{loaded.data ? inOneLine(loaded.data.content, 200) : (loaded.error ? "no longer there" : "…")}</span><span class="item-meta">{loaded.data && <KindLabel kind={loaded.data.kind} />}{score !== undefined && <span>score {score.toFixed(2)}</span>}{why && <span>{why}</span>}</span></Link>;
}

/** Lines between the places of the same memory on both sides. */
function Moves({ box, one, other }: { box: { current: HTMLDivElement | null }; one: RecallAnswer; other: RecallAnswer }) {
  const [paths, setPaths] = useState<{ d: string; tone: string }[]>([]);
  useLayoutEffect(() => {
    const frame = box.current;
    if (!frame) return;
    const draw = () => {
      const base = frame.getBoundingClientRect();
      const find = (side: string, id: string) => frame.querySelector(`[data-side="${side}"] [data-id="${CSS.escape(id)}"]`)?.getBoundingClientRect();
      setPaths(other.items.flatMap((item, rank) => {
        const was = one.items.findIndex((each) => each.id === item.id);
        const [left, right] = [find("_1", item.id), find("_2", item.id)];
        if (was < 0 || was === rank || !left || !right) return [];
        const [x1, y1, x2, y2] = [left.right - base.left, left.top + 18 - base.top, right.left - base.left, right.top + 18 - base.top];
        return [{ d: `M${x1},${y1} C${(x1 + x2) / 2},${y1} ${(x1 + x2) / 2},${y2} ${x2},${y2}`, tone: was > rank ? "up" : "down" }];
      }));
    };
    draw();
    addEventListener("resize", draw);
    return () => removeEventListener("resize", draw);
  }, [one, other]);
  return <svg class="lines" aria-hidden="true">{paths.map((path, index) => <path key={index} d={path.d} class={path.tone} />)}</svg>;
}

function ContextSide({ question }: { question: string }) {
  const { query } = usePlace();
  const budget = query.get("budget") ?? "";
  const profile = query.get("profile") ?? "";
  const body = { question: question || undefined, budget: Number(budget) || undefined, profile: profile || undefined, render: "text" as const, explain: true };
  const context = useLoad(["context", body], (signal) => call("get_context", { body, signal }));
  return (
    <div class="side">
      <div class="filters">
        <TextField label="Budget in tokens" type="number" value={budget} placeholder="its own" onInput={(value) => changeSettings({ budget: value }, { replace: true })} />
        <TextField label="Profile" value={profile} placeholder="default" list="known-profiles" onInput={(value) => changeSettings({ profile: value }, { replace: true })} />
        <datalist id="known-profiles">{["router", "stable", "start"].map((name) => <option key={name} value={name} />)}</datalist>
      </div>
      <Show of={context} lines={10}>{(data) => <Assembled context={data} question={question} />}</Show>
    </div>
  );
}

interface SectionTrace {
  name: string;
  tokens: number;
  milliseconds: number;
  considered: number;
  left: { id: string | null; reason: string }[];
}

const LEFT: Record<string, string> = { duplicate: "said already", top_k: "beyond the most lines of the section", budget: "did not fit into the budget" };

function Assembled({ context, question }: { context: Context; question: string }) {
  const [raw, setRaw] = useState(false);
  const traced = new Map(((context.trace as { sections?: SectionTrace[] } | null)?.sections ?? []).map((section) => [section.name, section]));
  const shown = context.sections.filter((section) => section.items.length > 0);
  const tokens = (name: string, items: { tokens: number }[]) => traced.get(name)?.tokens ?? items.reduce((sum, item) => sum + item.tokens, 0);
  return (
    <>
      <p><strong>{count(context.tokens)}</strong> of {count(context.budget)} tokens, {count(context.left)} free; profile {context.profile}{context.degraded ? "; degraded" : ""}.</p>
      <Stacked label="Tokens" whole={context.budget} left={context.left} parts={shown.map((section, index) => ({ name: words(section.name), value: tokens(section.name, section.items), tone: `hue-${index % 8}` }))} />
      <div class="actions"><Check label="the prompt as the agent gets it" checked={raw} onChange={setRaw} /></div>
      {raw ? <pre>{context.text}</pre> : (
        <div class="prompt">
          {shown.map((section, index) => {
            const trace = traced.get(section.name);
            return (
              <section key={section.name}>
                <h3 class={`hue-${index % 8}`}><span>{words(section.name)}</span><span>{count(tokens(section.name, section.items))} tokens, its share {count(section.budget)}{trace && trace.left.length > 0 ? ` · ${several(trace.left.length, "line")} cut` : ""}</span></h3>
                {section.items.map((item) => (
                  <div class="prompt-line" key={item.ref}>
                    <span class="ref">{item.ref}</span>
                    <span class="line-text" dir="auto" tabIndex={0}><Marked text={item.content} question={question} />{item.is_cut && <Badge tone="warn">cut</Badge>}</span>
                    {item.item_id ? <Link to={itemPath(item.item_id)}>{kindName(item.kind)}</Link> : <span class="muted">{words(item.kind)}</span>}
                  </div>
                ))}
                {trace && trace.left.length > 0 && <Unfold title={`${several(trace.left.length, "line")} left out`}>{() => <div class="rows">{trace.left.slice(0, 20).map((left, number) => left.id ? <CutItem key={left.id} id={left.id} why={LEFT[left.reason] ?? words(left.reason)} /> : <p key={number} class="muted">a line: {LEFT[left.reason] ?? words(left.reason)}</p>)}</div>}</Unfold>}
              </section>
            );
          })}
        </div>
      )}
    </>
  );
}
