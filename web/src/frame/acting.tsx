// "Acting as": the user, agent and session that every call of the page is for. It is part of the address.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api/client";
import { useLoad, forgetAnswers } from "../kit/load";
import { type Acting, actAs, actingIn, usePlace } from "../kit/router";
import { Button, TextField } from "../kit/ui";
import { isAdmin, me } from "./session";

export function ActingAs({ tenant }: { tenant: string }) {
  const { query } = usePlace();
  const now = actingIn(query);
  const bound = me();
  const [open, setOpen] = useState(false);
  const [draft, setDraft] = useState<Acting>(now);
  const users = useLoad(open && isAdmin() ? ["acting-users"] : null, (signal) => call("list_users", { query: { limit: 100 }, signal, as: {} }));
  const agents = useLoad(open ? ["acting-agents"] : null, (signal) => call("list_agents", { query: { limit: 100 }, signal, as: {} }));
  useEffect(() => setDraft(now), [open]);
  const apply = (who: Acting) => {
    forgetAnswers();
    actAs(who);
    setOpen(false);
  };
  const parts = [bound.user_id ?? now.user ?? "all users", bound.agent_id ?? now.agent, now.session].filter(Boolean);
  const name = bound.role === "admin" || now.user || bound.user_id ? parts.join(" · ") : parts.slice(1).join(" · ") || "no user";
  return (
    <div class="acting">
      <button type="button" class="acting-button" aria-expanded={open} onClick={() => setOpen(!open)} title="Whom every call of this page acts for">
        <span class="muted acting-tenant">{tenant} ·</span> <span class={now.user || now.agent || now.session ? "acting-now" : ""}>{name}</span> ▾
      </button>
      {open && (
        <form class="popover" onSubmit={(event) => { event.preventDefault(); apply(draft); }}>
          <p class="muted small">Every call of the page acts for them and sees what they see.</p>
          {bound.user_id ? <p>user: <strong>{bound.user_id}</strong> (bound)</p> : <TextField label="User" value={draft.user ?? ""} list="known-users" placeholder={isAdmin() ? "all users" : "none"} onInput={(user) => setDraft({ ...draft, user })} />}
          {bound.agent_id ? <p>agent: <strong>{bound.agent_id}</strong> (bound)</p> : <TextField label="Agent" value={draft.agent ?? ""} list="known-agents" placeholder="none" onInput={(agent) => setDraft({ ...draft, agent })} />}
          <TextField label="Session" value={draft.session ?? ""} placeholder="none" onInput={(session) => setDraft({ ...draft, session })} />
          <datalist id="known-users">{users.data?.items.map((user) => <option key={user.user_id} value={user.user_id}>{user.display_name ?? ""}</option>)}</datalist>
          <datalist id="known-agents">{agents.data?.items.map((agent) => <option key={agent.agent_id} value={agent.agent_id} />)}</datalist>
          <div class="dialog-foot">
            <Button kind="quiet" onClick={() => apply({})}>Everyone</Button>
            <Button kind="main" type="submit">Act</Button>
          </div>
        </form>
      )}
    </div>
  );
}
