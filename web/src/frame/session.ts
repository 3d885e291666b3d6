// Who is signed in. Everything that the page remembers is dropped when that changes.
import { ApiError, call, signIn, signOut, whenSignedOut } from "../api/client";
import type { Identity, Tenant } from "../api/schema";
import { readInSessions } from "../kit/item";
import { asApiError, forgetAnswers } from "../kit/load";
import { go } from "../kit/router";
import { store } from "../kit/store";

export type Session = { state: "unknown" } | { state: "out"; error?: ApiError } | { state: "away"; error: ApiError } | { state: "in"; me: Identity; tenant: Tenant };

export const session = store<Session>({ state: "unknown" });
const others = new BroadcastChannel("recordari");

function leave(error?: ApiError): void {
  forgetAnswers();
  session.set({ state: "out", error });
}

whenSignedOut(() => session.get().state === "in" && leave());
// Another window of this browser changed who is signed in: nothing here is theirs.
others.onmessage = () => location.reload();

// The address of a sign-in may be opened in a window that shows the page already.
addEventListener("hashchange", () => location.hash.includes("code=") && void begin());

/** Read who is signed in; a code in the address signs in first, and does not stay there. */
export async function begin(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    try {
      await signIn({ code });
      others.postMessage("changed");
    } catch (error) {
      const failure = asApiError(error);
      if (failure.status !== 401) return leave(failure);
      // The address was used before; whoever used it here is still signed in.
    }
  }
  await look(code !== null);
}

async function look(hadCode: boolean): Promise<void> {
  try {
    const as = {};
    const [me, tenant] = await Promise.all([call("whoami", { as }), call("get_tenant", { as })]);
    forgetAnswers();
    readInSessions(me.role !== "admin");
    session.set({ state: "in", me, tenant });
  } catch (error) {
    const failure = asApiError(error);
    if (failure.status !== 401) session.set({ state: "away", error: failure });
    else leave(hadCode ? new ApiError(401, "used", "This address was used before, or is too old. Sign in with a key, or get another with `recordari sign-in`.", "") : undefined);
  }
}

export async function enter(credential: string): Promise<void> {
  await signIn({ credential });
  others.postMessage("changed");
  await look(false);
}

export async function exit(): Promise<void> {
  await signOut();
  others.postMessage("changed");
  go("/", { replace: true });
  leave(); // every page is unmounted, and every answer dropped
}

/** Who is signed in, for pages, which are shown only then. */
export function me(): Identity {
  const now = session.get();
  if (now.state !== "in") throw new Error("nobody is signed in");
  return now.me;
}

/** Commands for a terminal, for the tenant that is signed in. */
export function forTenant(commands: string): string {
  const now = session.get();
  const name = now.state === "in" ? now.tenant.name : "default";
  if (name === "default") return commands;
  const option = ` --tenant ${/^[\w.-]+$/.test(name) ? name : JSON.stringify(name)}`;
  return commands.split("\n").map((command) => command + option).join("\n");
}

export function isAdmin(): boolean {
  return me().role === "admin";
}
