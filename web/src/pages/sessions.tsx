// Sessions and runs: what was said, and what agents did.
import { call } from "../api/client";
import type { Run, RunStatus, Session, SessionStatus } from "../api/schema";
import { isAdmin } from "../frame/session";
import { count, firstLine, several } from "../kit/format";
import { List, usePages } from "../kit/list";
import { useLoad } from "../kit/load";
import { address, changeSettings, go, Link, usePlace } from "../kit/router";
import { Tabs } from "../kit/tabs";
import { Badge, Choice, Empty, Page, TextField, Time } from "../kit/ui";

export function sessionPath(session: Session): string {
  return `/ui/sessions/${encodeURIComponent(session.session_id)}`;
}

export function runPath(run: Run): string {
  return `/ui/runs/${encodeURIComponent(run.run_id)}`;
}

/** The user whose session it is: an id that two users chose means two sessions. */
function owner(of: { user_id: string | null }): Record<string, string> {
  return of.user_id ? { as_user: of.user_id } : {};
}

export default function Sessions() {
  const { query } = usePlace();
  const isRuns = query.get("tab") === "runs";
  const stats = useLoad(isAdmin() ? ["memories-stats"] : null, (signal) => call("memory_stats", { signal, as: {} }));
  const others = stats.data?.others;
  const says = others ? `${several(others.open_sessions, "open conversation")} and ${count(others.closed_sessions)} closed; ${several(others.runs, "run")} to replay step by step.` : "Conversations with their window, summary and notes; and runs, step by step.";
  return (
    <Page title="Sessions" says={says}>
      <Tabs path="/ui/sessions" tabs={[["", "Conversations"], ["runs", "Runs"]]} />
      {isRuns ? <Runs /> : <Conversations />}
    </Page>
  );
}

function Conversations() {
  const { query } = usePlace();
  const status = (query.get("status") || undefined) as SessionStatus | undefined;
  const [user, agent] = [query.get("user") ?? "", query.get("agent") ?? ""];
  const filters = { status, user_id: user.trim() || undefined, agent_id: agent.trim() || undefined };
  const pages = usePages<Session>(["sessions", filters], (cursor, signal) => call("list_sessions", { query: { ...filters, limit: 100, cursor }, signal }));
  return (
    <>
      <div class="filters">
        <Choice label="Status" value={status ?? ""} any="all" options={["open", "closed"]} onChange={(value) => changeSettings({ status: value })} />
        {isAdmin() && <TextField label="User" value={user} placeholder="all users" onInput={(value) => changeSettings({ user: value }, { replace: true })} />}
        {isAdmin() && <TextField label="Agent" value={agent} placeholder="any agent" onInput={(value) => changeSettings({ agent: value }, { replace: true })} />}
      </div>
      <List
        pages={pages}
        height={56}
        label="Sessions"
        keyOf={(session) => session.session_ref}
        open={(session) => go(address(sessionPath(session), owner(session)))}
        row={(session) => (
          <Link to={sessionPath(session)} settings={owner(session)} class="item-row">
            <span class="item-text" dir="auto"><strong>{session.session_id}</strong>{session.summary && <span class="muted"> {firstLine(session.summary, 200)}</span>}</span>
            <span class="item-meta">
              <Badge tone={session.status === "open" ? "good" : "plain"}>{session.status}</Badge>
              <Time at={session.active_at} />
              <span><strong>{session.user_id ?? "no user"}</strong>{session.agent_id ? ` with ${session.agent_id}` : ""}</span>
              <span>{several(session.messages, "message")}</span>
              {session.epoch > 0 && <span>epoch {session.epoch}</span>}
            </span>
          </Link>
        )}
        empty={<Empty title="No session yet." command={`curl -X POST ${location.origin}/v1/sessions/first/messages -H "Authorization: Bearer $KEY" -H "Recordari-User: ana" \\\n  -H "Content-Type: application/json" -d '{"messages": [{"content": "I live in Porto."}]}'`}>A session opens with its first message.</Empty>}
      />
    </>
  );
}

function Runs() {
  const { query } = usePlace();
  const status = (query.get("status") || undefined) as RunStatus | undefined;
  const pages = usePages<Run>(["runs", status], (cursor, signal) => call("list_runs", { query: { status, limit: 100, cursor }, signal }));
  return (
    <>
      <div class="filters"><Choice label="Status" value={status ?? ""} any="all" options={["running", "completed", "failed"]} onChange={(value) => changeSettings({ status: value })} /></div>
      <List
        pages={pages}
        height={56}
        label="Runs"
        keyOf={(run) => run.run_ref}
        open={(run) => go(address(runPath(run), owner(run)))}
        row={(run) => (
          <Link to={runPath(run)} settings={owner(run)} class="item-row">
            <span class="item-text" dir="auto"><strong>{run.run_id}</strong>{run.error && <span class="muted"> {run.error}</span>}</span>
            <span class="item-meta">
              <RunBadge status={run.status} />
              <Time at={run.started_at} />
              <span><strong>{run.user_id ?? "no user"}</strong>{run.agent_id ? ` with ${run.agent_id}` : ""}</span>
              <span>{several(run.turns, "turn")}, {several(run.calls, "tool call")}</span>
              {run.tokens_in + run.tokens_out > 0 && <span>{count(run.tokens_in + run.tokens_out)} tokens</span>}
              {Number(run.cost) > 0 && <span>{run.cost} {run.currency}</span>}
            </span>
          </Link>
        )}
        empty={<Empty title="No run yet." command={`curl -X POST ${location.origin}/v1/runs -H "Authorization: Bearer $KEY" -H "Recordari-Agent: support" -H "Recordari-Session: first" \\\n  -H "Content-Type: application/json" -d '{"input": {"goal": "refund"}}'`}>A run is what an agent does with one input: its turns and tool calls can be replayed here.</Empty>}
      />
    </>
  );
}

export function RunBadge({ status }: { status: RunStatus }) {
  return <Badge tone={status === "completed" ? "good" : status === "failed" ? "bad" : "accent"}>{status}</Badge>;
}
