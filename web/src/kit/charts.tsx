// Small charts in plain SVG: bars, a line, parts of a whole. Each says its figures in words too.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { count } from "./format";

/** How wide an element is, so that what is drawn in it keeps the size of its letters. */
export function useWidth<E extends Element>(): [{ current: E | null }, number] {
  const element = useRef<E>(null);
  const [width, setWidth] = useState(640);
  useLayoutEffect(() => {
    if (!element.current) return;
    const observer = new ResizeObserver(([entry]) => entry && entry.contentRect.width > 0 && setWidth(Math.round(entry.contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

/** One bar for each name, longest first unless `sorted` is off. */
export function Bars({ values, name = (key) => key, href, tone = () => "", sorted = true, most: highest, shown = count }: { values: Record<string, number>; name?: (key: string) => ComponentChildren; href?: (key: string) => ComponentChildren; tone?: (key: string) => string; sorted?: boolean; most?: number; shown?: (value: number) => string }) {
  const rows = Object.entries(values);
  if (sorted) rows.sort((one, other) => other[1] - one[1]);
  const most = highest ?? Math.max(1, ...rows.map(([, value]) => value));
  return (
    <div class="bars">
      {rows.map(([key, value]) => (
        <div class="bar-row" key={key}>
          <span class="bar-name">{href ? href(key) : name(key)}</span>
          <span class="bar-track">
            <span class={`bar-fill ${tone(key)}`} style={{ width: `${Math.max(value > 0 ? 1 : 0, (value / most) * 100)}%` }} />
          </span>
          <span class="bar-value">{shown(value)}</span>
        </div>
      ))}
    </div>
  );
}

export interface Part {
  name: string;
  value: number;
  tone?: string;
}

/** Parts of a whole in one bar; what is left of `whole` stays empty. */
export function Stacked({ parts, whole, label, left = whole - parts.reduce((sum, part) => sum + part.value, 0) }: { parts: Part[]; whole: number; label: string; left?: number }) {
  return (
    <div class="stacked" role="img" aria-label={`${label}: ${parts.map((part) => `${part.name} ${count(part.value)}`).join(", ")} of ${count(whole)}`}>
      {parts
        .filter((part) => part.value > 0)
        .map((part, index) => (
          <span key={part.name} class={`stacked-part ${part.tone ?? `hue-${index % 7}`}`} style={{ width: `${(part.value / Math.max(1, whole)) * 100}%` }} title={`${part.name}: ${count(part.value)}`}>
            <span>{part.name} {count(part.value)}</span>
          </span>
        ))}
      {left / Math.max(1, whole) > 0.12 && <span class="stacked-free">{count(left)} free</span>}
    </div>
  );
}

export interface Point {
  x: number;
  y: number;
}

interface LineProps {
  lines: { points: Point[]; tone?: string; name?: string }[];
  height?: number;
  label: string;
  x: (value: number) => string;
  y?: (value: number) => string;
  fromZero?: boolean;
  most?: number;
  marks?: { x: number; name: string }[];
  bars?: boolean;
}

const LEFT = 52;
const BOTTOM = 20;
const TOP = 10;

/** Lines over a labelled axis; `bars` draws the first as columns. */
export function LineChart({ lines, height = 160, label, x, y = count, fromZero = true, most, marks = [], bars }: LineProps) {
  const [element, width] = useWidth<SVGSVGElement>();
  const points = lines.flatMap((line) => line.points);
  if (points.length === 0) return null;
  const xs = [...points.map((point) => point.x), ...marks.map((mark) => mark.x)];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const low = fromZero ? 0 : Math.min(...points.map((point) => point.y));
  const high = most ?? Math.max(low + 1e-9, ...points.map((point) => point.y));
  const atX = (value: number) => LEFT + ((value - left) / Math.max(1e-9, right - left)) * (width - LEFT - 12);
  const atY = (value: number) => TOP + (1 - (value - low) / Math.max(1e-9, high - low)) * (height - TOP - BOTTOM);
  const isLate = (value: number) => atX(value) > width - 80; // its name has no room at the right
  const first = lines[0];
  const column = bars && first ? Math.max(1, (width - LEFT - 12) / Math.max(1, first.points.length) - 2) : 0;
  return (
    <svg class="chart" ref={element} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {[low, (low + high) / 2, high].map((value) => (
        <g key={value}>
          <line class="grid" x1={LEFT} x2={width - 12} y1={atY(value)} y2={atY(value)} />
          <text x={LEFT - 6} y={atY(value) + 4} text-anchor="end">
            {y(value)}
          </text>
        </g>
      ))}
      <text x={LEFT} y={height - 4}>
        {x(left)}
      </text>
      <text x={width - 12} y={height - 4} text-anchor="end">
        {x(right)}
      </text>
      {bars && first
        ? first.points.map((point) => (
            <rect key={point.x} class={`column ${first.tone ?? ""}`} x={atX(point.x) - column / 2} y={atY(point.y)} width={column} height={Math.max(0, atY(low) - atY(point.y))}>
              <title>{`${x(point.x)}: ${y(point.y)}`}</title>
            </rect>
          ))
        : lines.map((line, index) => <polyline key={index} class={`line ${line.tone ?? ""}`} points={line.points.map((point) => `${atX(point.x).toFixed(1)},${atY(point.y).toFixed(1)}`).join(" ")}>{line.name && <title>{line.name}</title>}</polyline>)}
      {marks.map((mark) => (
        <g key={mark.name}>
          <line class="mark" x1={atX(mark.x)} x2={atX(mark.x)} y1={TOP} y2={height - BOTTOM} />
          <text x={atX(mark.x) + (isLate(mark.x) ? -4 : 4)} y={TOP + 10} text-anchor={isLate(mark.x) ? "end" : "start"}>
            {mark.name}
          </text>
        </g>
      ))}
    </svg>
  );
}
