// A layout of a graph by forces: nodes push each other away, links pull them together, all are drawn to the middle.
// Nodes push only those near them, found by a grid, so that a step costs the same for each node.
export interface Placed {
  x: number;
  y: number;
  radius: number;
}

export interface Pull {
  one: number;
  other: number;
  strength: number;
}

const REACH = 130;
const PUSH = 900;
const CENTRE = 0.006;
const STEPS = 150;

export class Forces {
  private step = 0;
  private readonly moves: Float64Array;

  constructor(
    readonly nodes: Placed[],
    private readonly pulls: Pull[],
  ) {
    this.moves = new Float64Array(nodes.length * 2);
    // A spiral from the middle: the first, which are in most items, are inside. It is the same every time.
    for (const [index, node] of nodes.entries()) {
      const [distance, angle] = [22 * Math.sqrt(index + 0.5), index * 2.39996];
      node.x = distance * Math.cos(angle);
      node.y = distance * Math.sin(angle);
    }
  }

  get isDone(): boolean {
    return this.step >= STEPS;
  }

  /** Move for at most so many milliseconds. */
  run(milliseconds: number): void {
    const end = performance.now() + milliseconds;
    while (!this.isDone && performance.now() < end) this.move(1 - this.step++ / STEPS);
  }

  private move(heat: number): void {
    const { nodes, moves } = this;
    moves.fill(0);
    const grid = new Map<number, number[]>();
    const cell = (node: Placed) => Math.floor(node.x / REACH) * 4096 + Math.floor(node.y / REACH);
    for (const [index, node] of nodes.entries()) {
      const key = cell(node);
      const there = grid.get(key);
      if (there) there.push(index);
      else grid.set(key, [index]);
    }
    for (const [index, node] of nodes.entries()) {
      const key = cell(node);
      for (const near of [-4097, -4096, -4095, -1, 0, 1, 4095, 4096, 4097]) {
        for (const other of grid.get(key + near) ?? []) {
          if (other <= index) continue;
          const there = nodes[other]!;
          const [dx, dy] = [node.x - there.x || 0.1, node.y - there.y || 0.1];
          const distance = Math.hypot(dx, dy);
          if (distance > REACH) continue;
          const touching = node.radius + there.radius + 6 - distance;
          const push = PUSH / (distance * distance) + (touching > 0 ? touching * 0.4 : 0);
          this.add(index, (dx / distance) * push, (dy / distance) * push);
          this.add(other, (-dx / distance) * push, (-dy / distance) * push);
        }
      }
      this.add(index, -node.x * CENTRE, -node.y * CENTRE);
    }
    for (const { one, other, strength } of this.pulls) {
      const [a, b] = [nodes[one]!, nodes[other]!];
      const [dx, dy] = [b.x - a.x, b.y - a.y];
      const distance = Math.max(1, Math.hypot(dx, dy));
      const pull = ((distance - 60) / distance) * 0.05 * strength;
      this.add(one, dx * pull, dy * pull);
      this.add(other, -dx * pull, -dy * pull);
    }
    const most = 14 * heat + 0.5;
    for (const [index, node] of nodes.entries()) {
      const [dx, dy] = [moves[2 * index]!, moves[2 * index + 1]!];
      const length = Math.hypot(dx, dy);
      const scale = length > most ? most / length : 1;
      node.x += dx * scale;
      node.y += dy * scale;
    }
  }

  private add(index: number, x: number, y: number): void {
    this.moves[2 * index]! += x;
    this.moves[2 * index + 1]! += y;
  }
}
