// Overview: how much there is, how it is, and what happened lately.
import { call } from "../api/client";
import type { Stats } from "../api/schema";
import { isAdmin } from "../frame/session";
import { Bars } from "../kit/charts";
import { bytes, count, several } from "../kit/format";
import { useEvery, useLoad } from "../kit/load";
import { Link } from "../kit/router";
import { Empty, Figure, kindName, Page, Section, Show } from "../kit/ui";

export default function Overview() {
  return isAdmin() ? <TenantOverview /> : <Page title="Overview"><Empty title="Your memory">Search above, or open <Link to="/ui/memories">Memories</Link>.</Empty></Page>;
}

function sentence(stats: Stats): string {
  const live = Object.values(stats.by_kind).reduce((sum, value) => sum + value, 0);
  return `${several(live, "memory", "memories")}; ${stats.pending_embeddings ? `${count(stats.pending_embeddings)} wait to be embedded` : "everything is embedded"}; ${stats.dead_letters ? several(stats.dead_letters, "dead letter") : "no dead letters"}.`;
}

function TenantOverview() {
  const stats = useLoad(["stats"], (signal) => call("memory_stats", { signal, as: {} }));
  useEvery(30, stats.reload);
  return (
    <Page title="Overview" says={stats.data && sentence(stats.data)}>
      <Show of={stats} lines={8}>
        {(data) => (
          <>
            <div class="figures">
              <Figure label="stored" value={count(data.items)} note={bytes(data.content_bytes)} />
              <Figure label="pinned" value={count(data.pinned)} />
              <Figure label="open sessions" value={count(data.others.open_sessions)} note={`${count(data.others.closed_sessions)} closed`} />
              <Figure label="to embed" value={count(data.pending_embeddings)} />
              <Figure label="dead letters" value={count(data.dead_letters)} tone={data.dead_letters ? "bad" : undefined} />
            </div>
            <div class="columns">
              <Section title="By kind"><Bars values={data.by_kind} tone={(kind) => `kind kind-${kind}`} name={kindName} /></Section>
              <Section title="By scope"><Bars values={data.by_scope} /></Section>
            </div>
          </>
        )}
      </Show>
    </Page>
  );
}
