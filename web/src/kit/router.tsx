// Addresses: the path chooses the page, the query holds its settings. `as_user`, `as_agent` and `as_session` say whom every
// call acts for, and stay when you follow a link.
import type { ComponentChildren, JSX } from "preact";
import { store, useStore } from "./store";

export interface Place {
  path: string;
  query: URLSearchParams;
}

export interface Acting {
  user?: string;
  agent?: string;
  session?: string;
}

const ACTING: Record<keyof Acting, string> = { user: "as_user", agent: "as_agent", session: "as_session" };

function read(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export const place = store<Place>(read());
addEventListener("popstate", () => place.set(read()));

export function usePlace(): Place {
  return useStore(place);
}

export function actingIn(query: URLSearchParams): Acting {
  const found: Acting = {};
  for (const [name, key] of Object.entries(ACTING) as [keyof Acting, string][]) {
    const value = query.get(key);
    if (value) found[name] = value;
  }
  // The session of one memory: only the page of that memory acts in it.
  const inSession = query.get("in_session");
  if (inSession) found.session ??= inSession;
  return found;
}

export function acting(): Acting {
  return actingIn(place.get().query);
}

/** The address of a page with its settings; empty settings are left out, and whom we act for is kept. */
export function address(path: string, settings: Record<string, string | undefined | null> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(settings)) if (value) query.set(name, value);
  for (const key of Object.values(ACTING)) {
    const value = place.get().query.get(key);
    if (value && !(key in settings)) query.set(key, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

export function go(to: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  const before = place.get().path;
  place.set(read());
  if (place.get().path !== before) document.querySelector("main")?.scrollTo(0, 0);
}

/** Change settings of the page that is shown; null removes one. */
export function changeSettings(changes: Record<string, string | null | undefined>, options?: { replace?: boolean }): void {
  const query = new URLSearchParams(place.get().query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(text ? `${place.get().path}?${text}` : place.get().path, options);
}

export function actAs(who: Acting): void {
  changeSettings({ [ACTING.user]: who.user, [ACTING.agent]: who.agent, [ACTING.session]: who.session });
}

interface LinkProps extends Omit<JSX.HTMLAttributes<HTMLAnchorElement>, "href"> {
  to: string;
  settings?: Record<string, string | undefined | null>;
  class?: string;
  title?: string;
  children: ComponentChildren;
}

export function Link({ to, settings, children, ...more }: LinkProps) {
  usePlace();
  const href = address(to, settings);
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(href);
  };
  return (
    <a {...more} href={href} onClick={follow}>
      {children}
    </a>
  );
}

/** The parts of a path that fit a pattern such as `/ui/items/:id`; null if it does not fit. */
export function matched(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const parts: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? "";
    if (part.startsWith(":")) {
      try {
        parts[part.slice(1)] = decodeURIComponent(value);
      } catch {
        return null;
      }
    } else if (part !== value) return null;
  }
  return parts;
}
