// The graph on a canvas: drag to move it, the wheel or the buttons to come closer, a click chooses an entity or a link.
import { useEffect, useRef, useState } from "preact/hooks";
import type { EntityGraph, EntityLink, EntityNode } from "../api/schema";
import { several } from "../kit/format";
import { Forces, type Placed } from "../kit/forces";
import { Button } from "../kit/ui";

export const HUES: Record<EntityNode["kind"], number> = { person: 4, name: 0, term: 3, identifier: 6, email: 1 };
const LABELLED = 26; // nodes whose name is always written

interface View {
  x: number;
  y: number;
  scale: number;
}

type Shown = { forces: Forces; nodes: (EntityNode & Placed)[]; links: { link: EntityLink; one: number; other: number }[] };

function laidOut(graph: EntityGraph): Shown {
  const most = Math.max(1, ...graph.nodes.map((node) => node.items));
  const nodes = graph.nodes.map((node) => ({ ...node, x: 0, y: 0, radius: 4 + 12 * Math.sqrt(node.items / most) }));
  const places = new Map(nodes.map((node, index) => [node.entity_id, index]));
  const links = graph.links.flatMap((link) => {
    const [one, other] = [places.get(link.one_id), places.get(link.other_id)];
    return one === undefined || other === undefined ? [] : [{ link, one, other }];
  });
  const heaviest = Math.max(1, ...links.map(({ link }) => link.items));
  return { nodes, links, forces: new Forces(nodes, links.map(({ link, one, other }) => ({ one, other, strength: 0.4 + 0.6 * Math.sqrt(link.items / heaviest) }))) };
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
  const [, renew] = useState(0);
  const draw = () => canvas.current && shown.current && paint(canvas.current, shown.current, view.current, chosen, over.current);
  const fit = () => {
    if (!canvas.current || !shown.current || isMoved.current) return;
    view.current = fitted(shown.current.nodes, canvas.current.clientWidth, canvas.current.clientHeight);
  };
  useEffect(() => {
    shown.current = laidOut(graph);
    isMoved.current = false;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let frame = 0;
    const step = () => {
      const forces = shown.current?.forces;
      if (!forces) return;
      forces.run(still ? 150 : 6);
      fit();
      draw();
      if (!forces.isDone) frame = requestAnimationFrame(step);
      else renew((count) => count + 1);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [graph]);
  useEffect(() => { draw(); });
  useEffect(() => {
    const again = () => { fit(); draw(); };
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
  const [left, right] = [Math.min(...nodes.map((node) => node.x - 40)), Math.max(...nodes.map((node) => node.x + 40))];
  const [top, bottom] = [Math.min(...nodes.map((node) => node.y - 26)), Math.max(...nodes.map((node) => node.y + 26))];
  const scale = Math.min(1.6, width / (right - left), height / (bottom - top));
  return { x: width / 2 - ((left + right) / 2) * scale, y: height / 2 - ((top + bottom) / 2) * scale, scale };
}

function paint(canvas: HTMLCanvasElement, { nodes, links }: Shown, view: View, chosen: string | null, over: number): void {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string) => resolved(canvas, name);
  const [text, line, back, accent] = [style.color, colour("--line-strong"), colour("--back"), colour("--accent")];
  const hues = Array.from({ length: 8 }, (_, index) => colour(`--hue-${index}`));
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
  for (const { link, one, other } of links) {
    const isNear = middle < 0 || one === middle || other === middle;
    pen.strokeStyle = middle >= 0 && isNear ? accent : line;
    pen.globalAlpha = isNear ? 0.75 : 0.15;
    pen.lineWidth = Math.min(5, 0.6 + Math.sqrt(link.items) * 0.6);
    pen.beginPath();
    pen.moveTo(nodes[one]!.x, nodes[one]!.y);
    pen.lineTo(nodes[other]!.x, nodes[other]!.y);
    pen.stroke();
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
  pen.font = `${size}px ${style.fontFamily}`;
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

/** A colour of the page as a canvas understands it: `light-dark()` is resolved by the browser. */
function resolved(canvas: HTMLCanvasElement, name: string): string {
  canvas.style.setProperty("outline-color", `var(${name})`);
  return getComputedStyle(canvas).outlineColor;
}
