// One run, replayed step by step: its turns and tool calls, how long each took, what it cost.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Replay, ToolCall, Turn } from "../api/schema";
import { Data, parsed } from "../kit/data";
import { bytes, count, exactly, milliseconds, several } from "../kit/format";
import { itemPath } from "../kit/item";
import { useKeys } from "../kit/keys";
import { useLoad } from "../kit/load";
import { Link } from "../kit/router";
import { Badge, Button, Check, Facts, Page, Section, ShortId, Show, Time } from "../kit/ui";
import { RunBadge } from "./sessions";
import "./session.css";

type Step = { kind: "turn"; turn: Turn } | { kind: "call"; call: ToolCall };

export default function RunPage({ id }: { id: string }) {
  const [results, setResults] = useState(true);
  const replay = useLoad(["replay", id, results], (signal) => call("replay_run", { path: { run_id: id }, query: { results }, signal }));
  return <Show of={replay} lines={10}>{(data) => <Shown replay={data} results={results} setResults={setResults} />}</Show>;
}

function steps(replay: Replay): Step[] {
  const list: Step[] = [];
  for (const turn of replay.turns) {
    list.push({ kind: "turn", turn });
    for (const each of replay.calls) if (each.turn === turn.number) list.push({ kind: "call", call: each });
  }
  const numbers = new Set(replay.turns.map((turn) => turn.number));
  for (const each of replay.calls) if (!numbers.has(each.turn)) list.push({ kind: "call", call: each });
  return list;
}

function Shown({ replay, results, setResults }: { replay: Replay; results: boolean; setResults: (on: boolean) => void }) {
  const { run } = replay;
  const all = steps(replay);
  const [at, setAt] = useState(all.length);
  const move = (by: number) => setAt((now) => Math.max(0, Math.min(all.length, now + by)));
  useKeys([{ key: "j", what: "next step", run: () => move(1) }, { key: "k", what: "step before", run: () => move(-1) }], [all.length]);
  const slowest = Math.max(1, ...replay.calls.map((each) => each.latency_ms ?? 0));
  const failed = replay.calls.filter((each) => each.error).length;
  const took = run.ended_at ? new Date(run.ended_at).getTime() - new Date(run.started_at).getTime() : undefined;
  return (
    <Page title={run.run_id} says={`${several(run.turns, "turn")} with ${several(run.calls, "tool call")}${failed ? `, ${count(failed)} failed` : ""}${took !== undefined ? `, in ${milliseconds(took)}` : ""}${Number(run.cost) ? `, for ${run.cost} ${run.currency}` : ""}.`} actions={<RunBadge status={run.status} />}>
      {run.error && <div class="error" dir="auto">{run.error}</div>}
      <div class="split">
        <div class="stack">
          <Section title="Replay" aside={<span>step {at} of {all.length}</span>}>
            <div class="actions">
              <Button onClick={() => setAt(0)}>Start</Button>
              <Button onClick={() => move(-1)} disabled={at === 0}>Back</Button>
              <Button kind="main" onClick={() => move(1)} disabled={at === all.length}>Next step</Button>
              <Button onClick={() => setAt(all.length)}>All</Button>
              <Check label="results" checked={results} onChange={setResults} />
            </div>
            <div>
              <div class="step turn"><div class="step-head"><strong>input</strong></div><Box value={run.input} /></div>
              {all.slice(0, at).map((step) => step.kind === "turn" ? <TurnStep key={`t${step.turn.number}`} turn={step.turn} currency={run.currency} /> : <CallStep key={`c${step.call.number}`} step={step.call} slowest={slowest} began={run.started_at} />)}
              {at === all.length && run.output !== null && run.output !== undefined && <div class="step turn"><div class="step-head"><strong>output</strong></div><Box value={run.output} /></div>}
            </div>
          </Section>
        </div>
        <aside class="stack">
          <Facts rows={[["status", run.status], ["user", run.user_id], ["agent", run.agent_id], ["session", <Link to={`/ui/sessions/${encodeURIComponent(run.session_id)}`}>{run.session_id}</Link>], ["started", <Time at={run.started_at} />], ["ended", run.ended_at && <Time at={run.ended_at} />], ["tokens in", run.tokens_in > 0 && count(run.tokens_in)], ["tokens out", run.tokens_out > 0 && count(run.tokens_out)], ["cost", Number(run.cost) > 0 && `${run.cost} ${run.currency}`], ["id", <ShortId id={run.run_ref} />], ["metadata", Object.keys(run.metadata).length > 0 && <Data value={run.metadata} />]]} />
        </aside>
      </div>
    </Page>
  );
}

function TurnStep({ turn, currency }: { turn: Turn; currency: string }) {
  return (
    <div class={`step turn ${turn.error ? "failed" : ""}`}>
      <div class="step-head">
        <strong>turn {turn.number}</strong>
        <RunBadge status={turn.status} />
        {turn.tokens_in + turn.tokens_out > 0 && <span class="muted">{count(turn.tokens_in)} tokens in, {count(turn.tokens_out)} out</span>}
        {Number(turn.cost) > 0 && <span class="muted">{turn.cost} {currency}</span>}
        {turn.ended_at && <span class="muted">{milliseconds(new Date(turn.ended_at).getTime() - new Date(turn.started_at).getTime())}</span>}
      </div>
      {turn.error && <div class="error" dir="auto">{turn.error}</div>}
    </div>
  );
}

/** What a program gave or got: JSON as names and values, and a very long text is cut. */
function Box({ value }: { value: unknown }) {
  return <div class="data-box" tabIndex={0}><Data value={parsed(value)} /></div>;
}

function CallStep({ step, slowest, began }: { step: ToolCall; slowest: number; began: string }) {
  const after = step.started_at ? new Date(step.started_at).getTime() - new Date(began).getTime() : undefined;
  return (
    <div class={`step ${step.error ? "failed" : ""}`}>
      <div class="step-head">
        <strong>{step.name}</strong>
        {step.error && <Badge tone="bad">failed</Badge>}
        {step.latency_ms !== null && <span class="muted">took {milliseconds(step.latency_ms)}</span>}
        {after !== undefined && <span class="muted" title={exactly(step.started_at ?? began)}>{after < 1 ? "at the start" : `${milliseconds(after)} after the start`}</span>}
      </div>
      {step.latency_ms !== null && <span class="bar-track"><span class="bar-fill" style={{ width: `${(step.latency_ms / slowest) * 100}%` }} /></span>}
      <div><span class="muted small">called with</span><Box value={step.arguments} /></div>
      {step.error && <div class="error" dir="auto">{step.error}</div>}
      {step.result != null && <div><span class="muted small">answered</span><Box value={step.result} /></div>}
      {step.result_id && <span class="small"><Link to={itemPath(step.result_id)}>the result as a memory</Link>{step.result_bytes ? <span class="muted"> · {bytes(step.result_bytes)}</span> : null}</span>}
    </div>
  );
}
