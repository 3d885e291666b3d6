// Values that programs wrote, shown as names and values; and text of lines, shown as headings and lists. Both stay text.
import type { ComponentChildren } from "preact";
import { Coded } from "./coded";
import { words } from "./format";
import "./data.css";

const DEEPEST = 4;
const LONGEST = 20_000;

/** A value of JSON: an object as its names with their values, a list line by line, anything else as text. */
export function Data({ value, depth = 0 }: { value: unknown; depth?: number }) {
  if (value === null || value === undefined || value === "") return <span class="muted">none</span>;
  if (typeof value !== "object") return <span class="data-text" dir="auto">{String(value).slice(0, LONGEST)}</span>;
  if (depth >= DEEPEST) return <span class="data-text" dir="auto">{JSON.stringify(value).slice(0, LONGEST)}</span>;
  if (Array.isArray(value)) {
    if (value.length === 0) return <span class="muted">none</span>;
    return <ol class="data-list">{value.slice(0, 200).map((each, index) => <li key={index}><Data value={each} depth={depth + 1} /></li>)}</ol>;
  }
  const pairs = Object.entries(value);
  if (pairs.length === 0) return <span class="muted">none</span>;
  return (
    <dl class="data">
      {pairs.map(([name, each]) => (
        <div key={name}>
          <dt dir="auto">{words(name)}</dt>
          <dd><Data value={each} depth={depth + 1} /></dd>
        </div>
      ))}
    </dl>
  );
}

/** The value of a text that may be JSON; the text itself if it is none. */
export function parsed(text: unknown): unknown {
  if (typeof text !== "string" || !/^\s*[[{]/.test(text) || text.length > LONGEST) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Lines as people write them: `# ` begins a heading, `- ` a point of a list; the first heading may be left out. */
export function Lines({ text, untitled }: { text: string; untitled?: boolean }) {
  const blocks: ComponentChildren[] = [];
  let points: string[] = [];
  const flush = () => {
    if (points.length > 0) blocks.push(<ul key={blocks.length}>{points.map((point, index) => <li key={index} dir="auto"><Coded text={point} /></li>)}</ul>);
    points = [];
  };
  for (const line of text.slice(0, LONGEST).split("\n")) {
    const [, mark, rest] = /^(#{1,3}|-)\s+(.*)$/.exec(line) ?? [];
    if (mark === "-") points.push(rest ?? "");
    else {
      flush();
      if (mark === "#" && untitled) continue;
      if (mark) blocks.push(<h3 key={blocks.length} dir="auto">{rest}</h3>);
      else if (line.trim()) blocks.push(<p key={blocks.length} dir="auto"><Coded text={line} /></p>);
    }
  }
  flush();
  return <div class="lines-of" tabIndex={0}>{blocks}</div>;
}
