// The graph on a canvas: drag to move it, the wheel or the buttons to come closer, a click chooses an entity or a link.
import { useEffect, useRef } from "preact/hooks";
import type { EntityGraph, EntityLink, EntityNode } from "../api/schema";
import { several } from "../kit/format";
import type { GraphToPlace } from "../kit/forces";
import type { PlacesAsked } from "../kit/placing";
import { Button } from "../kit/ui";

export const HUES: Record<EntityNode["kind"], number> = { person: 4, name: 0, term: 3, identifier: 6, email: 1 };
const LABELLED = 26; // nodes whose name is always written
const LABEL_ROOM = 44; // pixels at an edge, for half of a name
const TOLD = 6; // pictures of the graph until it rests

interface View {
  x: number;
  y: number;
  scale: number;
}

interface Placed {
  x: number;
  y: number;
  radius: number;
}

type Shown = { nodes: (EntityNode & Placed)[]; links: { link: EntityLink; one: number; other: number }[] };

function unplaced(graph: EntityGraph): Shown {
  const most = Math.max(1, ...graph.nodes.map((node) => node.items));
  const nodes = graph.nodes.map((node) => ({ ...node, x: 0, y: 0, radius: 4 + 12 * Math.sqrt(node.items / most) }));
  const places = new Map(nodes.map((node, index) => [node.entity_id, index]));
  const links = graph.links.flatMap((link) => {
    const [one, other] = [places.get(link.one_id), places.get(link.other_id)];
    return one === undefined || other === undefined ? [] : [{ link, one, other }];
  });
  return { nodes, links };
}

function toPlace({ nodes, links }: Shown): GraphToPlace {
  const heaviest = Math.max(1, ...links.map(({ link }) => link.items));
  return {
    radii: Float32Array.from(nodes, (node) => node.radius),
    ends: Uint32Array.from(links.flatMap(({ one, other }) => [one, other])),
    strengths: Float32Array.from(links, ({ link }) => 0.4 + 0.6 * Math.sqrt(link.items / heaviest)),
  };
}

/** Tell where the nodes are, now and then until they rest; returns what stops it. */
function place(shown: Shown, times: number, moved: () => void): () => void {
  const worker = new Worker(new URL("../kit/placing.ts", import.meta.url), { type: "module" });
  let frame = 0;
  worker.onmessage = (event: MessageEvent<Float32Array>) => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      for (const [index, node] of shown.nodes.entries()) [node.x, node.y] = [event.data[2 * index]!, event.data[2 * index + 1]!];
      moved();
    });
  };
  worker.postMessage({ graph: toPlace(shown), times } satisfies PlacesAsked);
  return () => {
    cancelAnimationFrame(frame);
    worker.terminate();
  };
}

interface GraphProps {
  graph: EntityGraph;
  chosen: string | null;
  choose: (id: string | null) => void;
}

export function Graph({ graph, chosen, choose }: GraphProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const shown = useRef<Shown>();
  const view = useRef<View>({ x: 0, y: 0, scale: 1 });
  const over = useRef<number>(-1);
  const isMoved = useRef(false);
  const colours = useRef<Colours>();
  const draw = () => {
    if (!canvas.current || !shown.current) return;
    colours.current ??= coloursOf(canvas.current);
    paint(canvas.current, shown.current, view.current, colours.current, chosen, over.current);
  };
  const latest = useRef(draw);
  latest.current = draw; // the layout may end after another entity was chosen
  const fit = () => {
    if (!canvas.current || !shown.current || isMoved.current) return;
    view.current = fitted(shown.current.nodes, canvas.current.clientWidth, canvas.current.clientHeight);
  };
  useEffect(() => {
    const now = unplaced(graph);
    isMoved.current = false;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    return place(now, still ? 1 : TOLD, () => {
      shown.current = now;
      fit();
      latest.current();
    });
  }, [graph]);
  useEffect(() => { draw(); });
  useEffect(() => {
    const again = () => { colours.current = undefined; fit(); draw(); };
    const theme = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("resize", again);
    theme.addEventListener("change", again);
    return () => {
      removeEventListener("resize", again);
      theme.removeEventListener("change", again);
    };
  });
  const zoom = (by: number, x = (canvas.current?.clientWidth ?? 0) / 2, y = (canvas.current?.clientHeight ?? 0) / 2) => {
    const now = view.current;
    const scale = Math.min(6, Math.max(0.15, now.scale * by));
    view.current = { x: x - ((x - now.x) * scale) / now.scale, y: y - ((y - now.y) * scale) / now.scale, scale };
    isMoved.current = true;
    draw();
  };
  const at = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return [(event.clientX - box.left - view.current.x) / view.current.scale, (event.clientY - box.top - view.current.y) / view.current.scale] as const;
  };
  const nodeAt = (event: MouseEvent) => {
    const [x, y] = at(event);
    const slack = 4 / view.current.scale;
    return shown.current?.nodes.findIndex((node) => Math.hypot(node.x - x, node.y - y) <= node.radius + slack) ?? -1;
  };
  const press = (event: PointerEvent) => {
    const [startX, startY, from] = [event.clientX, event.clientY, { ...view.current }];
    let dragged = false;
    const move = (now: PointerEvent) => {
      dragged ||= Math.hypot(now.clientX - startX, now.clientY - startY) > 4;
      if (!dragged) return;
      isMoved.current = true;
      view.current = { ...from, x: from.x + now.clientX - startX, y: from.y + now.clientY - startY };
      draw();
    };
    const up = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      const index = dragged ? -2 : nodeAt(event);
      if (index >= 0) choose(shown.current?.nodes[index]?.entity_id ?? null);
      else if (index === -1) choose(null);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
  };
  const hover = (event: MouseEvent) => {
    const index = nodeAt(event);
    if (index === over.current) return;
    over.current = index;
    if (canvas.current) canvas.current.style.cursor = index >= 0 ? "pointer" : "grab";
    draw();
  };
  return (
    <div class="graph">
      <canvas ref={canvas} role="img" aria-label={`${several(graph.nodes.length, "entity", "entities")} and ${several(graph.links.length, "link")}; the list beside it says the same`} onPointerDown={press} onMouseMove={hover} onWheel={(event) => { event.preventDefault(); const box = event.currentTarget.getBoundingClientRect(); zoom(event.deltaY < 0 ? 1.15 : 0.87, event.clientX - box.left, event.clientY - box.top); }} />
      <div class="graph-buttons">
        <Button aria-label="Closer" onClick={() => zoom(1.3)}>+</Button>
        <Button aria-label="Further away" onClick={() => zoom(0.77)}>−</Button>
        <Button aria-label="Show all" onClick={() => { isMoved.current = false; fit(); draw(); }}>⤢</Button>
      </div>
    </div>
  );
}

function fitted(nodes: Placed[], width: number, height: number): View {
  if (nodes.length === 0) return { x: width / 2, y: height / 2, scale: 1 };
  const [left, right] = [Math.min(...nodes.map((node) => node.x - node.radius)), Math.max(...nodes.map((node) => node.x + node.radius))];
  const [top, bottom] = [Math.min(...nodes.map((node) => node.y - node.radius)), Math.max(...nodes.map((node) => node.y + node.radius))];
  const scale = Math.min(1.6, (width - 2 * LABEL_ROOM) / (right - left), (height - LABEL_ROOM) / (bottom - top));
  return { x: width / 2 - ((left + right) / 2) * scale, y: height / 2 - ((top + bottom) / 2) * scale, scale };
}

interface Colours {
  text: string;
  line: string;
  back: string;
  accent: string;
  hues: string[];
  font: string;
}

/** The colours of the page as a canvas understands them: `light-dark()` is resolved by the browser. */
function coloursOf(canvas: HTMLCanvasElement): Colours {
  const style = getComputedStyle(canvas);
  const colour = (name: string) => {
    canvas.style.setProperty("outline-color", `var(${name})`);
    return style.outlineColor;
  };
  return { text: style.color, line: colour("--line-strong"), back: colour("--back"), accent: colour("--accent"), hues: Array.from({ length: 8 }, (_, index) => colour(`--hue-${index}`)), font: style.fontFamily };
}

function paint(canvas: HTMLCanvasElement, { nodes, links }: Shown, view: View, { text, line, back, accent, hues, font }: Colours, chosen: string | null, over: number): void {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.translate(view.x, view.y);
  pen.scale(view.scale, view.scale);
  const middle = nodes.findIndex((node) => node.entity_id === chosen);
  const near = new Set<number>(middle >= 0 ? [middle] : []);
  for (const { one, other } of links) {
    if (one === middle) near.add(other);
    if (other === middle) near.add(one);
  }
  // Links of one width and tone are drawn with one stroke.
  const strokes = new Map<string, { width: number; isNear: boolean; path: Path2D }>();
  for (const { link, one, other } of links) {
    const isNear = middle < 0 || one === middle || other === middle;
    const width = Math.min(5, 0.6 + Math.round(Math.sqrt(link.items)) * 0.6);
    const key = `${width} ${isNear}`;
    const stroke = strokes.get(key) ?? { width, isNear, path: new Path2D() };
    strokes.set(key, stroke);
    stroke.path.moveTo(nodes[one]!.x, nodes[one]!.y);
    stroke.path.lineTo(nodes[other]!.x, nodes[other]!.y);
  }
  for (const { width, isNear, path } of strokes.values()) {
    pen.strokeStyle = middle >= 0 && isNear ? accent : line;
    pen.globalAlpha = isNear ? 0.75 : 0.15;
    pen.lineWidth = width;
    pen.stroke(path);
  }
  for (const [index, node] of nodes.entries()) {
    pen.globalAlpha = middle < 0 || near.has(index) ? 1 : 0.25;
    pen.fillStyle = hues[HUES[node.kind]] ?? text;
    pen.strokeStyle = index === middle ? accent : back;
    pen.lineWidth = index === middle ? 3 : 1.5;
    pen.beginPath();
    pen.arc(node.x, node.y, node.radius, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
  }
  const size = Math.max(9, 12 / view.scale);
  pen.font = `${size}px ${font}`;
  pen.textAlign = "center";
  pen.fillStyle = text;
  const taken: [number, number, number, number][] = [];
  const order = [...nodes.keys()].filter((index) => index === over || near.has(index) || (middle < 0 && index < LABELLED * Math.max(1, view.scale)));
  order.sort((one, other) => Number(other === over) - Number(one === over) || one - other);
  for (const index of order) {
    const node = nodes[index]!;
    const name = node.name.length > 28 ? `${node.name.slice(0, 27)}…` : node.name;
    const half = pen.measureText(name).width / 2;
    const box: [number, number, number, number] = [node.x - half, node.y + node.radius, node.x + half, node.y + node.radius + size * 1.2];
    if (index !== over && index !== middle && taken.some((each) => box[0] < each[2] && each[0] < box[2] && box[1] < each[3] && each[1] < box[3])) continue;
    taken.push(box);
    pen.globalAlpha = 0.8;
    pen.strokeStyle = back;
    pen.lineWidth = 3 / view.scale;
    pen.strokeText(name, node.x, box[3] - size * 0.2);
    pen.globalAlpha = 1;
    pen.fillText(name, node.x, box[3] - size * 0.2);
  }
  pen.globalAlpha = 1;
}
