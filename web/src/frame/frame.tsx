// What is around every page: navigation, search, whom we act for, and how the server is.
import { Suspense } from "./lazy";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api/client";
import { Dialog } from "../kit/dialog";
import { milliseconds } from "../kit/format";
import { shortcuts, useKeys } from "../kit/keys";
import { useEvery, useLoad } from "../kit/load";
import { address, go, Link, matched, usePlace } from "../kit/router";
import { useStore } from "../kit/store";
import { Button, Empty, Page } from "../kit/ui";
import { type PageEntry, PAGES } from "../pages";
import { ActingAs } from "./acting";
import { Search } from "./search";
import { exit, isAdmin, type Session } from "./session";

export function Frame({ session }: { session: Extract<Session, { state: "in" }> }) {
  const { path } = usePlace();
  const [menu, setMenu] = useState(false);
  const [help, setHelp] = useState(false);
  useEffect(() => setMenu(false), [path]);
  useKeys([{ key: "?", what: "all shortcuts", run: () => setHelp(true) }]);
  const allowed = PAGES.filter((page) => !page.admin || isAdmin());
  const found = find(allowed, path);
  // Where each page of the navigation was left, with its filters: the way back leads there.
  const left = useRef<Record<string, string>>({});
  if (found?.page.nav) left.current[found.page.path] = location.pathname + location.search;
  const parent = allowed.find((page) => page.path === found?.page.under);
  useEffect(() => {
    document.title = `${found?.page.title ?? "Not found"} · Recordari`;
  }, [found?.page.title]);
  return (
    <div class="frame">
      <a class="skip" href="#content">Skip to the page</a>
      <header class="top">
        <button type="button" class="menu" aria-label="Navigation" aria-expanded={menu} onClick={() => setMenu(!menu)}>☰</button>
        <Link to="/" class="brand"><span class="logo">◆</span> <span>Recordari</span></Link>
        <Search />
        <ActingAs tenant={session.tenant.name} />
        <Health />
      </header>
      <nav class={menu ? "open" : ""} aria-label="Pages">
        {allowed.filter((page) => page.nav).map((page) => <NavLink key={page.path} page={page} isCurrent={found?.page.path === page.path || found?.page.under === page.path} />)}
        <div class="nav-foot">
          <a href="/docs">API</a>
          <button type="button" onClick={() => setHelp(true)}>Shortcuts <kbd>?</kbd></button>
          <button type="button" onClick={() => void exit()}>Sign out</button>
        </div>
      </nav>
      <main id="content" tabIndex={-1}>
        {parent && <WayBack to={left.current[parent.path] ?? address(parent.path)} title={parent.title} />}
        {found ? <Suspense of={found.page.component} key={found.page.path} props={found.parts} /> : <Page title="Not found"><Empty title="There is no such page here, or it needs the role admin." /></Page>}
      </main>
      {help && <Help close={() => setHelp(false)} />}
    </div>
  );
}

function find(pages: PageEntry[], path: string) {
  for (const page of pages) {
    const parts = matched(page.path, path);
    if (parts) return { page, parts };
  }
  return null;
}

function WayBack({ to, title }: { to: string; title: string }) {
  const follow = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(to);
  };
  return <p class="way-back"><a href={to} onClick={follow}>← {title}</a></p>;
}

function NavLink({ page, isCurrent }: { page: PageEntry; isCurrent: boolean }) {
  const waiting = useLoad(page.waiting ? ["waiting", page.path] : null, () => page.waiting?.() ?? Promise.resolve(0));
  useEvery(60, waiting.reload);
  return (
    <Link to={page.path} class={isCurrent ? "current" : ""} aria-current={isCurrent ? "page" : undefined}>
      {page.title}
      {waiting.data ? <span class="nav-badge" title="waits for a person">{waiting.data > 99 ? "99+" : waiting.data}</span> : null}
    </Link>
  );
}

function Health() {
  const [took, setTook] = useState<number>();
  const ready = useLoad(["ready"], async () => {
    const began = performance.now();
    const answer = await call("ready", { as: {} });
    setTook(performance.now() - began);
    return answer;
  });
  useEvery(20, ready.reload);
  const [tone, text, why] = ready.error ? ["bad", "away", ready.error.detail] : took === undefined ? ["plain", "…", "asking"] : took > 1000 ? ["warn", "slow", `answers after ${milliseconds(took)}`] : ["good", "ok", `answers after ${milliseconds(took)}`];
  return (
    <span class={`health ${tone}`} title={why} role="status">
      <span class="dot" /> {text}
    </span>
  );
}

function Help({ close }: { close: () => void }) {
  const known = useStore(shortcuts);
  const once = [...new Map(known.map((each) => [each.key, each])).values()];
  return (
    <Dialog title="Keyboard shortcuts" close={close}>
      <dl class="keys">
        {once.map((each) => (
          <div key={each.key}>
            <dt><kbd>{each.key.replace("mod+", "⌘/Ctrl ").toUpperCase()}</kbd></dt>
            <dd>{each.what}</dd>
          </div>
        ))}
      </dl>
      <div class="dialog-foot"><Button onClick={close}>Close</Button></div>
    </Dialog>
  );
}

