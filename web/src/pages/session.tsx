// One conversation as it was, with its window, summary, notes and runs.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Message, Session } from "../api/schema";
import { isAdmin } from "../frame/session";
import { Stacked } from "../kit/charts";
import { Data, Lines } from "../kit/data";
import { Confirm } from "../kit/dialog";
import { count, several, words } from "../kit/format";
import { itemPath, itemSettings } from "../kit/item";
import { usePages } from "../kit/list";
import { useLoad } from "../kit/load";
import { Link } from "../kit/router";
import { Badge, Button, ErrorBox, Facts, Page, Section, ShortId, Show, Skeleton, Time } from "../kit/ui";
import { RunBadge, runPath } from "./sessions";
import "./session.css";

export default function SessionPage({ id }: { id: string }) {
  const path = { session_id: id };
  const session = useLoad(["session", id], (signal) => call("get_session", { path, signal }));
  return <Show of={session} lines={8}>{(data) => <Shown session={data} reload={session.reload} />}</Show>;
}

const CLOSED: Record<string, string> = { asked: "closed by its agent", idle: "closed after a long silence" };

function Shown({ session, reload }: { session: Session; reload: () => void }) {
  const [closing, setClosing] = useState(false);
  const path = { session_id: session.session_id };
  const window = useLoad(["window", session.session_ref, session.active_at], (signal) => call("get_window", { path, signal }));
  const notes = useLoad(["notes", session.session_ref], (signal) => call("list_notes", { path, signal }));
  const runs = useLoad(["runs-of", session.session_ref], (signal) => call("list_runs", { query: { session_id: session.session_id, limit: 20 }, signal }));
  return (
    <Page
      title={session.session_id}
      says={`${several(session.messages, "message")}${session.user_id ? ` with ${session.user_id}` : ""}; ${session.status === "open" ? `open; the window has ${count(session.window_tokens)} tokens` : CLOSED[session.close_reason ?? ""] ?? "closed"}; ${session.epoch ? `epoch ${session.epoch}: the window was compressed ${several(session.epoch, "time")}` : "epoch 0: the window was never compressed"}.`}
      actions={session.status === "open" && <Button onClick={() => setClosing(true)}>Close…</Button>}
    >
      <div class="split">
        <div class="stack">
          <Section title="Conversation"><Conversation session={session} /></Section>
        </div>
        <aside class="stack">
          <Show of={window}>
            {(data) => session.status === "open" && (
              <Section title="Window" aside={`${count(data.state.tokens)} of ${count(data.state.limit)} tokens`}>
                <Stacked label="Window" whole={data.state.limit} parts={[{ name: "window", value: data.state.tokens, tone: "hue-0" }]} />
                <p class="muted small">{several(data.messages.length, "message")} word by word from message {data.state.first} on{data.state.compressed ? "; compressed" : ""}.{data.state.hint ? ` ${data.state.hint}` : ""}</p>
              </Section>
            )}
          </Show>
          <Section title="Summary" aside={session.summary ? (session.status === "closed" ? "of the whole conversation" : "so far") : undefined}>
            {session.summary ? <Lines text={session.summary} /> : <p class="muted">Nothing is summarised yet.</p>}
          </Section>
          <Show of={notes}>
            {(page) => <Section title="Notes" aside={page.items.length || undefined}>{page.items.length === 0 ? <p class="muted">The agent noted nothing.</p> : page.items.map((note) => <div key={note.note_id}><Badge>{words(note.kind)}</Badge> <span dir="auto">{note.content}</span></div>)}</Section>}
          </Show>
          <Show of={runs}>
            {(page) => <Section title="Runs">{page.items.length === 0 ? <p class="muted">No run was part of it.</p> : page.items.map((run) => <div key={run.run_ref}><Link to={runPath(run)} settings={run.user_id ? { as_user: run.user_id } : {}}>{run.run_id}</Link> <RunBadge status={run.status} /></div>)}</Section>}
          </Show>
          <Facts rows={[["user", session.user_id], ["agent", session.agent_id], ["opened", <Time at={session.opened_at} />], ["active", <Time at={session.active_at} />], ["closed", session.closed_at && <Time at={session.closed_at} />], ["continues", session.continues && <Link to={`/ui/sessions/${encodeURIComponent(session.continues)}`}>{session.continues}</Link>], ["id", <ShortId id={session.session_ref} />], ["metadata", Object.keys(session.metadata).length > 0 && <Data value={session.metadata} />]]} />
        </aside>
      </div>
      {closing && <Confirm title="Close the session" action="Close" close={() => setClosing(false)} run={async () => { await call("close_session", { path }); reload(); }}><p>Its last messages are summarised, and what lasts is kept{isAdmin() ? "" : " for you"}. A later message opens a new session that continues this one.</p></Confirm>}
    </Page>
  );
}

function Conversation({ session }: { session: Session }) {
  const pages = usePages<Message>(["messages", session.session_ref, session.messages], (cursor, signal) => call("list_messages", { path: { session_id: session.session_id }, query: { limit: 100, cursor }, signal }));
  return (
    <div class="said">
      {pages.rows.map((message) => (
        <div key={message.item_id} class="said">
          {message.position === session.window_from && message.position > 1 && <div class="fold">the window begins here; what is above is summarised</div>}
          <div class={`message ${message.role}`}>
            <div class="message-text" dir="auto" tabIndex={0}>{message.content}</div>
            <div class="item-meta">
              <span>{message.speaker && message.speaker !== message.role ? message.speaker : message.role === "user" ? (session.user_id ?? "user") : message.role === "assistant" ? (session.agent_id ?? "assistant") : message.role}</span>
              <Time at={message.event_time} />
              <span class="wide-only">{several(message.tokens, "token")}</span>
              <Link to={itemPath(message.item_id)} settings={itemSettings({ scope: "session", session_id: session.session_id })}>its memory</Link>
            </div>
          </div>
        </div>
      ))}
      {pages.loading && <Skeleton lines={4} />}
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {!pages.done && !pages.loading && !pages.error && <Button kind="quiet" onClick={pages.more}>Later messages</Button>}
    </div>
  );
}
