// Users, agents and keys of the tenant.
import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Agent, ApiKey, NewKey, Role, User } from "../../api/schema";
import { forTenant } from "../../frame/session";
import { Confirm, Dialog } from "../../kit/dialog";
import { count, firstLine } from "../../kit/format";
import { usePages } from "../../kit/list";
import { useLoad } from "../../kit/load";
import { Link } from "../../kit/router";
import { DataTable, useAction } from "../../kit/table";
import { Badge, Button, Choice, Empty, ErrorBox, Section, ShortId, Show, TextField, Time } from "../../kit/ui";

export function People() {
  return (
    <>
      <Users />
      <Agents />
      <Keys />
    </>
  );
}

function Users() {
  const pages = usePages<User>(["users"], (cursor, signal) => call("list_users", { query: { limit: 50, cursor }, signal, as: {} }));
  return (
    <Section title="Users" aside="the people that agents talk with">
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {!pages.loading && pages.rows.length === 0 && <Empty title="No user yet." command={forTenant(`recordari remember "Ana prefers tea" --user ana`)}>A user is there with the first memory.</Empty>}
      {pages.rows.length > 0 && (
        <DataTable<User>
          label="Users"
          rows={pages.rows}
          keyOf={(user) => user.user_id}
          columns={[
            { title: "user", cell: (user) => <Link to="/ui/memories" settings={{ as_user: user.user_id }} title="see what they see">{user.user_id}</Link> },
            { title: "name", cell: (user) => <span dir="auto">{user.display_name}</span> },
            { title: "time zone", cell: (user) => user.time_zone },
            { title: "since", cell: (user) => <Time at={user.created_at} />, class: "nowrap" },
          ]}
        />
      )}
      {!pages.done && !pages.loading && <Button kind="quiet" onClick={pages.more}>More users</Button>}
    </Section>
  );
}

function Agents() {
  const agents = useLoad(["agents"], (signal) => call("list_agents", { query: { limit: 100 }, signal, as: {} }));
  return (
    <Section title="Agents">
      <Show of={agents}>
        {(page) => page.items.length === 0 ? <p class="muted">No agent is defined. An agent without a definition may still remember and recall.</p> : (
          <DataTable<Agent>
            label="Agents"
            rows={page.items}
            keyOf={(agent) => agent.agent_id}
            columns={[
              { title: "agent", cell: (agent) => <Link to="/ui/memories" settings={{ as_agent: agent.agent_id }}>{agent.agent_id}</Link> },
              { title: "instructions", cell: (agent) => <span dir="auto" class="cell-text">{firstLine(agent.core, 160)}</span> },
              { title: "model", cell: (agent) => agent.model },
              { title: "window", cell: (agent) => `${count(agent.window_tokens)} tokens`, class: "number nowrap" },
              { title: "version", cell: (agent) => agent.version, class: "number" },
              { title: "changed", cell: (agent) => <Time at={agent.updated_at} />, class: "nowrap" },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

function Keys() {
  const keys = useLoad(["keys"], (signal) => call("list_keys", { signal, as: {} }));
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<NewKey>();
  const [revoking, setRevoking] = useState<ApiKey>();
  return (
    <Section title="Keys" aside={<Button onClick={() => setMaking(true)}>New key…</Button>}>
      <Show of={keys}>
        {(page) => page.items.length === 0 ? <p class="muted">No key yet. A program needs one; people sign in with a key or by an address that <code>recordari sign-in</code> prints.</p> : (
          <DataTable<ApiKey>
            label="Keys"
            rows={page.items}
            keyOf={(key) => key.key_id}
            columns={[
              { title: "name", cell: (key) => <span dir="auto">{key.name}</span> },
              { title: "role", cell: (key) => <Badge tone={key.role === "admin" ? "warn" : "plain"}>{key.role}</Badge> },
              { title: "for", cell: (key) => [key.user_id && `user ${key.user_id}`, key.users && `users ${key.users.join(", ")}`, key.agent_id && `agent ${key.agent_id}`].filter(Boolean).join("; ") || <span class="muted">anybody</span> },
              { title: "made", cell: (key) => <Time at={key.created_at} />, class: "nowrap" },
              { title: "ends", cell: (key) => key.revoked_at ? <Badge tone="bad">revoked</Badge> : key.expires_at ? <Time at={key.expires_at} /> : <span class="muted">never</span>, class: "nowrap" },
              { title: "id", cell: (key) => <ShortId id={key.key_id} /> },
              { title: "", cell: (key) => !key.revoked_at && <Button kind="danger" onClick={() => setRevoking(key)}>Revoke…</Button>, class: "right" },
            ]}
          />
        )}
      </Show>
      {making && <Make close={() => setMaking(false)} done={(key) => { setMaking(false); setMade(key); keys.reload(); }} />}
      {made && (
        <Dialog title="The new key" close={() => setMade(undefined)}>
          <p>Copy it now: it is shown only this once.</p>
          <pre>{made.key}</pre>
          <div class="dialog-foot"><Button kind="main" onClick={() => setMade(undefined)}>I have it</Button></div>
        </Dialog>
      )}
      {revoking && (
        <Confirm title="Revoke a key" action="Revoke" word="revoke" danger close={() => setRevoking(undefined)} run={() => call("revoke_key", { path: { key_id: revoking.key_id }, as: {} }).then(keys.reload)}>
          <p>Whoever uses the key “{revoking.name}” is refused from now on. This cannot be undone.</p>
        </Confirm>
      )}
    </Section>
  );
}

function Make({ close, done }: { close: () => void; done: (key: NewKey) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("agent");
  const [user, setUser] = useState("");
  const [agent, setAgent] = useState("");
  const { run, error, busy } = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    void run(async () => done(await call("create_key", { body: { name: name.trim(), role, user_id: user.trim() || null, agent_id: agent.trim() || null }, as: {} })));
  };
  return (
    <Dialog title="New key" close={close}>
      <form onSubmit={submit}>
        <TextField label="Name" value={name} autoFocus onInput={setName} />
        <Choice label="Role" value={role} options={["agent", "admin"]} onChange={(value) => setRole(value || "agent")} />
        <TextField label="Bound to the user" value={user} placeholder="none" onInput={setUser} />
        <TextField label="Bound to the agent" value={agent} placeholder="none" onInput={setAgent} />
        {error && <ErrorBox error={error} />}
        <div class="dialog-foot"><Button kind="quiet" onClick={close}>Cancel</Button><Button kind="main" type="submit" disabled={!name.trim() || busy}>Make the key</Button></div>
      </form>
    </Dialog>
  );
}
