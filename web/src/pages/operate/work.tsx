// Background work: what failed for good, when each job runs next, and what ran.
import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { DeadLetter, JobRecord, JobStatus, ScheduledJob } from "../../api/schema";
import { Confirm } from "../../kit/dialog";
import { several, words } from "../../kit/format";
import { itemPath } from "../../kit/item";
import { usePages } from "../../kit/list";
import { useEvery, useLoad } from "../../kit/load";
import { changeSettings, Link, usePlace } from "../../kit/router";
import { DataTable, useAction } from "../../kit/table";
import { Badge, Button, Choice, Empty, ErrorBox, Section, Show, Time } from "../../kit/ui";

const TONES: Record<JobStatus, "plain" | "good" | "bad" | "accent"> = { todo: "plain", doing: "accent", succeeded: "good", failed: "bad", cancelled: "plain", aborted: "bad" };

export function Work() {
  return (
    <>
      <DeadLetters />
      <Schedule />
      <Jobs />
    </>
  );
}

function DeadLetters() {
  const letters = useLoad(["dead-letters"], (signal) => call("list_dead_letters", { query: { limit: 100 }, signal, as: {} }));
  const { run, error, busy } = useAction();
  const [discarding, setDiscarding] = useState<DeadLetter>();
  useEvery(20, letters.reload);
  const then = (done: Promise<unknown>) => () => done.then(letters.reload);
  const replay = (letter: DeadLetter) => run(() => then(call("replay_dead_letter", { path: { dead_letter_id: letter.dead_letter_id }, as: {} }))());
  return (
    <Section title="Dead letters" aside={letters.data && letters.data.items.length > 1 ? <Button disabled={busy} onClick={() => run(() => call("replay_dead_letters", { as: {} }).then(letters.reload))}>Replay all</Button> : undefined}>
      {error && <ErrorBox error={error} />}
      <Show of={letters}>
        {(page) => page.items.length === 0 ? <p class="muted">Nothing failed for good. What fails is tried again first; after its last try it waits here for you.</p> : (
          <DataTable<DeadLetter>
            label="Dead letters"
            rows={page.items}
            keyOf={(letter) => letter.dead_letter_id}
            columns={[
              { title: "work", cell: (letter) => <><strong>{words(letter.name)}</strong> {letter.ref && <Link to={itemPath(letter.ref)}>its memory</Link>}</> },
              { title: "tries", cell: (letter) => letter.attempts, class: "number" },
              { title: "failed", cell: (letter) => <Time at={letter.failed_at} />, class: "nowrap" },
              { title: "why", cell: (letter) => <span dir="auto" class="cell-text">{letter.last_error}</span> },
              { title: "", cell: (letter) => <span class="actions"><Button disabled={busy} onClick={() => replay(letter)}>Replay</Button><Button kind="danger" onClick={() => setDiscarding(letter)}>Discard…</Button></span>, class: "right" },
            ]}
          />
        )}
      </Show>
      {discarding && (
        <Confirm title="Discard for good" action="Discard" word="discard" danger close={() => setDiscarding(undefined)} run={() => call("discard_dead_letter", { path: { dead_letter_id: discarding.dead_letter_id }, as: {} }).then(letters.reload)}>
          <p>This piece of work ({words(discarding.name)}) is never done. It cannot be undone.</p>
        </Confirm>
      )}
    </Section>
  );
}

const DOES: Record<string, string> = {
  housekeeping: "removes finished jobs and old traces of work",
  close_idle_sessions: "closes conversations after a long silence",
  prune_episodes: "keeps the newest episodes within the limit",
  daily_brief: "writes the brief of the day",
  sweep_state: "removes state whose time is over",
  sweep_entries: "removes entries whose time is over",
  sweep_choices: "removes old choices of workflows",
  sweep_answers: "removes kept answers of repeated requests",
  decay: "lets memory fade, and archives what nobody recalls",
  consolidate_sessions: "keeps what lasts of closed conversations",
  review_memory: "proposes to merge, end or keep facts",
  reconcile_shares: "brings shared memory up to date",
  retain: "removes what the retention policy says is over",
  resume_webhooks: "tries failing webhooks again",
  trim_events: "shortens the feed of changes",
  refresh_databases: "reads the schemas of connected databases",
  measure_usage: "counts memory for the plan",
  collect_objects: "removes files that nothing names any more",
  vector_index: "keeps the index of meanings",
};

function Schedule() {
  const schedule = useLoad(["schedule"], (signal) => call("job_schedule", { signal, as: {} }));
  const { run, error, busy } = useAction();
  const [started, setStarted] = useState("");
  const start = (job: string) => run(() => call("enqueue_job", { body: { job }, as: {} }).then((done) => setStarted(`${words(done.job)}: ${done.job_id === null ? "one waits already" : `started as job ${done.job_id}`}`)));
  return (
    <Section title="Schedule" aside={started || (schedule.data && several(schedule.data.length, "job"))}>
      {error && <ErrorBox error={error} />}
      <Show of={schedule} lines={6}>
        {(jobs) => jobs.length === 0 ? <Empty title="No job runs by the clock here.">The worker plans them when it first meets the tenant.</Empty> : (
          <DataTable<ScheduledJob>
            label="Schedule"
            rows={jobs}
            keyOf={(job) => job.job}
            columns={[
              { title: "job", cell: (job) => words(job.job), class: "nowrap" },
              { title: "what it does", cell: (job) => <span class="muted cell-text">{DOES[job.job]}</span> },
              { title: "next", cell: (job) => <Time at={job.next_at} />, class: "nowrap" },
              { title: "last", cell: (job) => job.last_at ? <Time at={job.last_at} /> : <span class="muted">not yet</span>, class: "nowrap" },
              { title: "", cell: (job) => <Button kind="quiet" disabled={busy} onClick={() => start(job.job)} aria-label={`Run now: ${words(job.job)}`}>Run now</Button>, class: "right" },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

function Jobs() {
  const { query } = usePlace();
  const status = (query.get("status") || undefined) as JobStatus | undefined;
  const pages = usePages<JobRecord>(["jobs", status], (cursor, signal) => call("list_jobs", { query: { status, limit: 25, cursor }, signal, as: {} }));
  return (
    <Section title="Jobs" aside={<Choice label="Status" value={status ?? ""} any="all" options={Object.keys(TONES) as JobStatus[]} onChange={(value) => changeSettings({ status: value }, { replace: true })} />}>
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {!pages.loading && pages.rows.length === 0 && <p class="muted">No job {status ? `is ${words(status)}` : "ran yet"}.</p>}
      {pages.rows.length > 0 && (
        <DataTable<JobRecord>
          label="Jobs"
          rows={pages.rows}
          keyOf={(job) => job.job_id}
          columns={[
            { title: "job", cell: (job) => words(job.job) },
            { title: "status", cell: (job) => <Badge tone={TONES[job.status]}>{job.status}</Badge> },
            { title: "tries", cell: (job) => job.attempts, class: "number" },
            { title: "last", cell: (job) => <Time at={job.last_at} />, class: "nowrap" },
            { title: "error", cell: (job) => <span dir="auto" class="cell-text">{job.last_error}</span> },
          ]}
        />
      )}
      {!pages.done && !pages.loading && <Button kind="quiet" onClick={pages.more}>Earlier jobs</Button>}
    </Section>
  );
}
