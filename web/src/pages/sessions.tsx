// Sessions and runs: what was said, and what agents did.
import { call } from "../api/client";
import type { Run, RunStatus, Session, SessionStatus } from "../api/schema";
import { count, several } from "../kit/format";
import { List, usePages } from "../kit/list";
import { address, changeSettings, go, Link, usePlace } from "../kit/router";
import { Tabs } from "../kit/tabs";
import { Badge, Choice, Empty, Page, Time } from "../kit/ui";

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
  return (
    <Page title="Sessions" says="Conversations with their window, summary and notes; and runs, step by step.">
      <Tabs path="/ui/sessions" tabs={[["", "Conversations"], ["runs", "Runs"]]} />
      {isRuns ? <Runs /> : <Conversations />}
    </Page>
  );
}

function Conversations() {
  const { query } = usePlace();
  const status = (query.get("status") || undefined) as SessionStatus | undefined;
  const pages = usePages<Session>(["sessions", status], (cursor, signal) => call("list_sessions", { query: { status, limit: 100, cursor }, signal }));
  return (
    <>
      <div class="filters"><Choice label="Status" value={status ?? ""} any="all" options={["open", "closed"]} onChange={(value) => changeSettings({ status: value })} /></div>
      <List
        pages={pages}
        height={56}
        label="Sessions"
        keyOf={(session) => session.session_ref}
        open={(session) => go(address(sessionPath(session), owner(session)))}
        row={(session) => (
          <Link to={sessionPath(session)} settings={owner(session)} class="item-row">
            <span class="item-text">{session.session_id}</span>
            <span class="item-meta">
              <Badge tone={session.status === "open" ? "good" : "plain"}>{session.status}</Badge>
              {session.user_id && <span>{session.user_id}</span>}
              {session.agent_id && <span>{session.agent_id}</span>}
              <span>{several(session.messages, "message")}</span>
              {session.epoch > 0 && <span>epoch {session.epoch}</span>}
              <span>last <Time at={session.active_at} /></span>
            </span>
          </Link>
        )}
        empty={<Empty title="No session yet." command={"POST /v1/sessions/{session_id}/messages"}>A session opens with its first message.</Empty>}
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
            <span class="item-text">{run.run_id}</span>
            <span class="item-meta">
              <RunBadge status={run.status} />
              {run.user_id && <span>{run.user_id}</span>}
              {run.agent_id && <span>{run.agent_id}</span>}
              <span>{several(run.turns, "turn")}, {several(run.calls, "tool call")}</span>
              {run.tokens_in + run.tokens_out > 0 && <span>{count(run.tokens_in + run.tokens_out)} tokens</span>}
              <Time at={run.started_at} />
            </span>
          </Link>
        )}
        empty={<Empty title="No run yet." command="POST /v1/runs">A run is what an agent does with one input: its turns and tool calls can be replayed here.</Empty>}
      />
    </>
  );
}

export function RunBadge({ status }: { status: RunStatus }) {
  return <Badge tone={status === "completed" ? "good" : status === "failed" ? "bad" : "accent"}>{status}</Badge>;
}
