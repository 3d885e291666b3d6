// An item looks the same wherever it is shown.
import type { ComponentChildren } from "preact";
import type { Item, Kind, RecalledItem, Scope, Trust } from "../api/schema";
import { parsed } from "./data";
import { firstLine } from "./format";
import { Link } from "./router";
import { Badge, KindLabel, Time } from "./ui";

export interface ShownItem {
  id: string;
  kind: Kind;
  content: string;
  at: string;
  scope: Scope;
  trust: Trust;
  speaker: string | null;
  session_id: string | null;
  user_id?: string | null;
  invalid_at: string | null;
  superseded_by?: string | null;
  archived_at?: string | null;
  archived?: boolean;
  shared_from: string | null;
}

export function shownItem(item: Item | RecalledItem): ShownItem {
  if ("item_id" in item) return { ...item, id: item.item_id, at: item.event_time };
  return { ...item, kind: item.source_kind, at: item.event_time };
}

let isInSessions = false;

/** Whether the viewer reads what belongs to a session only in that session; an administrator reads it anywhere. */
export function readInSessions(on: boolean): void {
  isInSessions = on;
}

/** What the page of an item needs besides its id. */
export function itemSettings(item: { scope: Scope; session_id: string | null }, question?: string): Record<string, string | undefined> {
  return { q: question, in_session: isInSessions && item.scope === "session" ? (item.session_id ?? undefined) : undefined };
}

export function itemPath(id: string): string {
  return `/ui/items/${id}`;
}

/** Words that say nothing about a text: every text has them. */
const COMMON = new Set("the and for are was were with that this these those what who whom whose where when which how why does did has have had you your not can will would should about from into they them their she her his him its our".split(" "));

/** Parts of a text that the question names. */
export function Marked({ text, question }: { text: string; question?: string }) {
  const words = [...new Set((question ?? "").toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [])].filter((word) => !COMMON.has(word));
  if (words.length === 0) return <>{text}</>;
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "giu");
  return <>{text.split(pattern).map((part, index) => (index % 2 ? <mark key={index}>{part}</mark> : part))}</>;
}

export function ItemState({ item }: { item: Pick<ShownItem, "invalid_at" | "superseded_by" | "archived_at" | "archived"> }) {
  if (item.superseded_by) return <Badge tone="warn">superseded</Badge>;
  if (item.invalid_at && new Date(item.invalid_at) <= new Date()) return <Badge tone="warn">ended</Badge>;
  if (item.archived_at || item.archived) return <Badge>archived</Badge>;
  return null;
}

const CARRIERS: Record<Trust, string> = { user: "said by a person", agent: "written by an agent", tool: "the answer of a tool", document: "in a document", external: "from outside" };

/** Who vouches for it: "said by a person". */
export function carrier(item: { trust: Trust }): string {
  return CARRIERS[item.trust];
}

const ROLES = new Set(["user", "assistant", "system", "tool"]);

/** Who said it, where that is not the user whose memory it is. */
function speakerOf(item: ShownItem): string | null {
  if (!item.speaker || item.speaker === "user" || item.speaker === item.user_id) return null;
  return item.kind === "tool_output" ? `from ${item.speaker}` : `said by ${ROLES.has(item.speaker) ? `the ${item.speaker}` : item.speaker}`;
}

/** A text in one line; what a tool answered as JSON is told as its names with their values. */
export function inOneLine(content: string, most?: number): string {
  const value = parsed(content);
  if (typeof value !== "object" || value === null) return firstLine(content, most);
  const told = Object.entries(value).map(([name, each]) => `${Array.isArray(value) ? "" : `${name}: `}${typeof each === "object" ? JSON.stringify(each) : String(each)}`);
  return firstLine(told.join(Array.isArray(value) ? ", " : " · "), most);
}

/** Two lines: the text, and where it belongs. The whole row is the link; `bare` leaves out what is the same in all rows. */
export function ItemRow({ item, question, aside, bare }: { item: ShownItem; question?: string; aside?: ComponentChildren; bare?: boolean }) {
  return (
    <Link to={itemPath(item.id)} settings={itemSettings(item, question)} class="item-row">
      <span class="item-text" dir="auto">
        <Marked text={inOneLine(item.content)} question={question} />
      </span>
      <span class="item-meta">
        {!bare && <KindLabel kind={item.kind} />}
        <ItemState item={item} />
        <Time at={item.at} />
        {item.user_id && <strong>{item.user_id}</strong>}
        {!bare && speakerOf(item) && <span>{speakerOf(item)}</span>}
        {!bare && <span class="wide-only">scope {item.scope}</span>}
        {!bare && <span class="wide-only">trust {item.trust}</span>}
        {item.shared_from && <span>shared by {item.shared_from}</span>}
        {aside}
      </span>
    </Link>
  );
}
