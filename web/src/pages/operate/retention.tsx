// Retention: how long what kind of memory is kept, what a sweep would take, and the sweep itself.
import { useEffect, useState } from "preact/hooks";
import { call } from "../../api/client";
import type { RetentionChange, RetentionPolicy, Sweep } from "../../api/schema";
import { Bars } from "../../kit/charts";
import { Confirm } from "../../kit/dialog";
import { count, several, share, words } from "../../kit/format";
import { useLoad } from "../../kit/load";
import { useAction } from "../../kit/table";
import { Button, Check, ErrorBox, Section, Show, TextField, Unfold } from "../../kit/ui";
import { Items } from "../item";

type Days = "deleted_days" | "superseded_days" | "archived_days" | "transient_days";
const MEANS: Record<Days, string> = {
  deleted_days: "Days until a forgotten memory leaves its last trace",
  superseded_days: "Days that an old version is kept",
  archived_days: "Days that an archived memory is kept",
  transient_days: "Days that memory of runs and sessions is kept after they end",
};

export function Retention() {
  const policy = useLoad(["retention"], (signal) => call("get_retention_policy", { signal, as: {} }));
  return (
    <>
      <Show of={policy} lines={6}>{(now) => <Policy now={now} reload={policy.reload} key={JSON.stringify(now)} />}</Show>
      <Sweeping />
      <Decay />
    </>
  );
}

function Policy({ now, reload }: { now: RetentionPolicy; reload: () => void }) {
  const [draft, setDraft] = useState<Record<Days, string>>(() => Object.fromEntries(Object.keys(MEANS).map((name) => [name, String(now[name as Days] ?? "")])) as Record<Days, string>);
  const [dryRun, setDryRun] = useState(now.dry_run);
  const { run, error, busy } = useAction();
  const change: RetentionChange = { dry_run: dryRun };
  for (const name of Object.keys(MEANS) as Days[]) {
    if (draft[name] === "" && name === "archived_days") change[name] = null;
    else if (draft[name] !== "") change[name] = Number(draft[name]);
  }
  return (
    <Section title="Policy" aside={`a sweep that would take over ${share(now.safety_share)} of memory is refused`}>
      <form class="stack" onSubmit={(event) => { event.preventDefault(); void run(() => call("set_retention_policy", { body: change, as: {} }).then(reload)); }}>
        <div class="grid-2">
          {(Object.keys(MEANS) as Days[]).map((name) => <TextField key={name} label={MEANS[name]} type="number" value={draft[name]} placeholder={name === "archived_days" ? "for good" : undefined} onInput={(value) => setDraft({ ...draft, [name]: value })} />)}
        </div>
        <Check label="dry run: the nightly sweep only counts" checked={dryRun} onChange={setDryRun} />
        {error && <ErrorBox error={error} />}
        <div class="actions"><Button kind="main" type="submit" disabled={busy}>Save the policy</Button></div>
      </form>
    </Section>
  );
}

const OUTCOMES: Record<string, string> = { purge: "removed", archive: "archived", anonymize: "redacted" };

function outcome(action: string): string {
  return OUTCOMES[action] ?? words(action);
}

function Sweeping() {
  const [planned, setPlanned] = useState<Sweep>();
  const [done, setDone] = useState<Sweep>();
  const [asking, setAsking] = useState(false);
  const { run, error, busy } = useAction();
  const look = () => run(async () => setPlanned(await call("sweep", { body: { dry_run: true }, as: {} })));
  const total = planned ? Object.values(planned.counts).reduce((sum, number) => sum + number, 0) : 0;
  useEffect(() => { if (done) setPlanned(undefined); }, [done]);
  return (
    <Section title="Sweep" aside="it runs by itself every night">
      <p class="muted">A sweep removes what the policy says is over. Look first: the dry run removes nothing.</p>
      <div class="actions">
        <Button onClick={look} disabled={busy}>What would go now?</Button>
        {planned && total > 0 && <Button kind="danger" onClick={() => setAsking(true)}>Sweep now…</Button>}
      </div>
      {error && <ErrorBox error={error} />}
      {done && <p role="status">Done: {Object.entries(done.counts).map(([name, number]) => `${count(number)} ${outcome(name)}`).join(", ") || "nothing was old enough"}.</p>}
      {planned && (total === 0 ? <p role="status">Nothing is old enough to go.</p> : (
        <>
          <p role="status">{several(total, "memory", "memories")} would be</p>
          <Bars values={planned.counts} name={outcome} />
          {Object.entries(planned.item_ids).filter(([, ids]) => ids.length > 0).map(([name, ids]) => <Unfold key={name} title={`${outcome(name)} (${count(ids.length)})`}>{() => <Items ids={ids} />}</Unfold>)}
        </>
      ))}
      {asking && (
        <Confirm title="Sweep now" action="Sweep" word="sweep" danger close={() => setAsking(false)} run={async () => setDone(await call("sweep", { body: { dry_run: false }, as: {} }))}>
          <p>{several(total, "memory", "memories")} would be ended by the policy. What is removed cannot be brought back.</p>
        </Confirm>
      )}
    </Section>
  );
}

function Decay() {
  const { run, error, busy } = useAction();
  const [says, setSays] = useState("");
  const decay = () => run(async () => {
    const done = await call("decay", { as: {} });
    setSays(`${several(done.examined, "memory", "memories")} looked at: ${count(done.archived)} archived, ${count(done.promoted)} promoted, ${several(done.reviews, "review")} asked for.`);
  });
  return (
    <Section title="Decay" aside="it runs by itself every night">
      <p class="muted">What is not recalled fades and is archived; recall still finds it and brings it back. Nothing is removed.</p>
      <div class="actions"><Button onClick={decay} disabled={busy}>Let memory fade now</Button></div>
      {says && <p role="status">{says}</p>}
      {error && <ErrorBox error={error} />}
    </Section>
  );
}
