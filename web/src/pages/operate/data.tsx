// Erasure of a user with its report, and the export of everything.
import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Erasure } from "../../api/schema";
import { Confirm } from "../../kit/dialog";
import { count, several } from "../../kit/format";
import { useEvery, useLoad } from "../../kit/load";
import { DataTable } from "../../kit/table";
import { Badge, Button, Section, ShortId, Show, TextField, Time } from "../../kit/ui";

export function Data() {
  return (
    <>
      <Erase />
      <Export />
    </>
  );
}

function Erase() {
  const [user, setUser] = useState("");
  const [asking, setAsking] = useState(false);
  const users = useLoad(["erase-users"], (signal) => call("list_users", { query: { limit: 100 }, signal, as: {} }));
  const erasures = useLoad(["erasures"], (signal) => call("list_erasures", { query: { limit: 50 }, signal, as: {} }));
  const isRunning = erasures.data?.items.some((erasure) => erasure.finished_at === null) ?? false;
  useEvery(isRunning ? 1 : 60, erasures.reload);
  return (
    <Section title="Erase a user">
      <p class="muted">Everything of the user goes, everywhere: memories and what was derived from them, vectors, sessions, runs, state, keys. The audit keeps a salted hash, as a proof that it was done.</p>
      <form class="filters" onSubmit={(event) => { event.preventDefault(); setAsking(user.trim() !== ""); }}>
        <TextField label="User id" value={user} list="users-to-erase" onInput={setUser} />
        <datalist id="users-to-erase">{users.data?.items.map((each) => <option key={each.user_id} value={each.user_id}>{each.display_name ?? ""}</option>)}</datalist>
        <Button kind="danger" type="submit" disabled={!user.trim()}>Erase…</Button>
      </form>
      {asking && <Sure user={user.trim()} close={() => setAsking(false)} done={() => { setUser(""); erasures.reload(); }} />}
      <Show of={erasures}>
        {(page) => page.items.length === 0 ? <p class="muted">Nobody has been erased yet.</p> : (
          <DataTable<Erasure>
            label="Erasures"
            rows={page.items}
            keyOf={(erasure) => erasure.erasure_id}
            columns={[
              { title: "user", cell: (erasure) => erasure.user_id ?? <span class="muted">erased</span> },
              { title: "state", cell: (erasure) => erasure.finished_at ? <Badge tone="good">finished</Badge> : <Badge tone="accent">running</Badge> },
              { title: "memories", cell: (erasure) => count(erasure.items), class: "number" },
              { title: "sessions", cell: (erasure) => count(erasure.sessions), class: "number" },
              { title: "asked", cell: (erasure) => <Time at={erasure.requested_at} />, class: "nowrap" },
              { title: "finished", cell: (erasure) => <Time at={erasure.finished_at} />, class: "nowrap" },
              { title: "id", cell: (erasure) => <ShortId id={erasure.erasure_id} /> },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

/** What would go, then the id typed once more. */
function Sure({ user, close, done }: { user: string; close: () => void; done: () => void }) {
  const has = useLoad(["erase-has", user], async (signal) => {
    const as = { user };
    const [items, sessions] = await Promise.all([call("list_items", { query: { limit: 100, state: "any" }, signal, as }), call("list_sessions", { query: { limit: 100, user_id: user }, signal, as: {} })]);
    const own = items.items.filter((item) => item.user_id === user);
    return { items: own.length, sessions: sessions.items.length, more: items.next_cursor !== null || sessions.next_cursor !== null };
  });
  return (
    <Confirm title={`Erase ${user}`} action="Erase for good" word={user.toLowerCase()} danger close={close} run={() => call("start_erasing_user", { body: { user_id: user }, as: {} }).then(done)}>
      <Show of={has} lines={1}>{(found) => <p>With the user {found.more ? "go at least" : "go"} {several(found.items, "memory", "memories")} and {several(found.sessions, "session")}. This cannot be undone.</p>}</Show>
      <p class="muted small">Export what you must keep first: the link is below.</p>
    </Confirm>
  );
}

function Export() {
  const [user, setUser] = useState("");
  const query = user.trim() ? `?${new URLSearchParams({ user_id: user.trim() }).toString()}` : "";
  return (
    <Section title="Export">
      <p class="muted">Everything that the tenant owns, or what belongs to one user, as JSON Lines. <code>recordari import</code> takes it back, here or elsewhere.</p>
      <div class="filters">
        <TextField label="Only this user" value={user} list="users-to-erase" placeholder="everything" onInput={setUser} />
        <a class="button main" href={`/v1/export${query}`} download={`recordari-${user.trim() ? "user" : "export"}.jsonl`}>Download</a>
      </div>
    </Section>
  );
}
