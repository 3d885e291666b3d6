// Every page: its address, its title, and where it is loaded from. `web/README.md` says how to add one.
import { call } from "../api/client";
import { type Lazy, lazy } from "../frame/lazy";

export interface PageEntry {
  /** The address; `:name` is given to the page as a property. */
  path: string;
  title: string;
  component: Lazy;
  /** Whether it is in the navigation. */
  nav?: boolean;
  /** The page of the navigation that it belongs to. */
  under?: string;
  /** Whether only administrators see it; the API refuses others in any case. */
  admin?: boolean;
  /** How much waits there for a person. */
  waiting?: () => Promise<number>;
}

async function deadLetters(): Promise<number> {
  return (await call("list_dead_letters", { query: { limit: 100 }, as: {} })).items.length;
}

async function openProposals(): Promise<number> {
  return (await call("list_proposals", { query: { status: "open", limit: 100 } })).items.length;
}

export const PAGES: PageEntry[] = [
  { path: "/", title: "Overview", nav: true, component: lazy(() => import("./overview")) },
  { path: "/ui/memories", title: "Memories", nav: true, component: lazy(() => import("./memories")) },
  { path: "/ui/items/:id", title: "Memory", under: "/ui/memories", component: lazy(() => import("./item")) },
  { path: "/ui/playground", title: "Playground", nav: true, component: lazy(() => import("./playground")) },
  { path: "/ui/facts", title: "Facts", nav: true, component: lazy(() => import("./facts")), admin: true, waiting: openProposals },
  { path: "/ui/entities", title: "Entities", nav: true, component: lazy(() => import("./entities")) },
  { path: "/ui/sessions", title: "Sessions", nav: true, component: lazy(() => import("./sessions")) },
  { path: "/ui/sessions/:id", title: "Session", under: "/ui/sessions", component: lazy(() => import("./session")) },
  { path: "/ui/runs/:id", title: "Run", under: "/ui/sessions", component: lazy(() => import("./run")) },
  { path: "/ui/workflows", title: "Workflows", nav: true, component: lazy(() => import("./workflows")) },
  { path: "/ui/workflows/:id", title: "Workflow", under: "/ui/workflows", component: lazy(() => import("./workflow")) },
  { path: "/ui/knowledge", title: "Knowledge", nav: true, component: lazy(() => import("./knowledge")) },
  { path: "/ui/documents/:id", title: "Document", under: "/ui/knowledge", component: lazy(() => import("./document")) },
  { path: "/ui/operate", title: "Operate", nav: true, component: lazy(() => import("./operate")), admin: true, waiting: deadLetters },
];
