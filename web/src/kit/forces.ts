// A layout of a graph by forces: nodes push each other away, links pull them together, all are drawn to the middle.
// Nodes push only those near them, found by a grid, so that a step costs the same for each node.
export interface GraphToPlace {
  radii: Float32Array;
  /** Two numbers of nodes for each link. */
  ends: Uint32Array;
  strengths: Float32Array;
}

const REACH = 130;
const PUSH = 900;
const CENTRE = 0.006;
export const STEPS = 150;

export class Forces {
  private step = 0;
  private readonly x: Float32Array;
  private readonly y: Float32Array;
  private readonly moveX: Float32Array;
  private readonly moveY: Float32Array;
  private readonly next: Int32Array;

  constructor(private readonly graph: GraphToPlace) {
    const size = graph.radii.length;
    [this.x, this.y, this.moveX, this.moveY] = [new Float32Array(size), new Float32Array(size), new Float32Array(size), new Float32Array(size)];
    this.next = new Int32Array(size);
    // A spiral from the middle: the first, which are in most items, are inside. It is the same every time.
    for (let index = 0; index < size; index++) {
      const [distance, angle] = [22 * Math.sqrt(index + 0.5), index * 2.39996];
      this.x[index] = distance * Math.cos(angle);
      this.y[index] = distance * Math.sin(angle);
    }
  }

  get isDone(): boolean {
    return this.step >= STEPS;
  }

  /** The places of all nodes, x and y in turn. */
  get places(): Float32Array {
    const places = new Float32Array(this.x.length * 2);
    for (let index = 0; index < this.x.length; index++) {
      places[2 * index] = this.x[index]!;
      places[2 * index + 1] = this.y[index]!;
    }
    return places;
  }

  run(steps: number): void {
    for (let left = steps; left > 0 && !this.isDone; left--) this.move(1 - this.step++ / STEPS);
  }

  private move(heat: number): void {
    const { x, y, moveX, moveY, graph } = this;
    for (let index = 0; index < x.length; index++) {
      moveX[index] = -x[index]! * CENTRE;
      moveY[index] = -y[index]! * CENTRE;
    }
    this.pushApart();
    for (let link = 0; link < graph.strengths.length; link++) {
      const [one, other] = [graph.ends[2 * link]!, graph.ends[2 * link + 1]!];
      const [dx, dy] = [x[other]! - x[one]!, y[other]! - y[one]!];
      const distance = Math.max(1, Math.sqrt(dx * dx + dy * dy));
      const pull = ((distance - 60) / distance) * 0.05 * graph.strengths[link]!;
      moveX[one]! += dx * pull;
      moveY[one]! += dy * pull;
      moveX[other]! -= dx * pull;
      moveY[other]! -= dy * pull;
    }
    const most = 14 * heat + 0.5;
    for (let index = 0; index < x.length; index++) {
      const [dx, dy] = [moveX[index]!, moveY[index]!];
      const length = Math.sqrt(dx * dx + dy * dy);
      const scale = length > most ? most / length : 1;
      x[index]! += dx * scale;
      y[index]! += dy * scale;
    }
  }

  private pushApart(): void {
    const { x, y, next } = this;
    const first = new Map<number, number>(); // of each cell of the grid; `next` leads on
    for (let index = 0; index < x.length; index++) {
      const cell = Math.floor(x[index]! / REACH) * 4096 + Math.floor(y[index]! / REACH);
      next[index] = first.get(cell) ?? -1;
      first.set(cell, index);
    }
    for (const [cell, head] of first) {
      // Half of the cells around: the other half looks at this one.
      for (const near of [0, 1, 4095, 4096, 4097]) {
        const start = near === 0 ? head : (first.get(cell + near) ?? -1);
        for (let one = head; one >= 0; one = next[one]!) {
          for (let other = near === 0 ? next[one]! : start; other >= 0; other = next[other]!) this.push(one, other);
        }
      }
    }
  }

  private push(one: number, other: number): void {
    const dx = this.x[one]! - this.x[other]! || 0.1;
    const dy = this.y[one]! - this.y[other]! || 0.1;
    const square = dx * dx + dy * dy;
    if (square > REACH * REACH) return;
    const distance = Math.sqrt(square);
    const touching = this.graph.radii[one]! + this.graph.radii[other]! + 6 - distance;
    const push = (PUSH / square + (touching > 0 ? touching * 0.4 : 0)) / distance;
    this.moveX[one]! += dx * push;
    this.moveY[one]! += dy * push;
    this.moveX[other]! -= dx * push;
    this.moveY[other]! -= dy * push;
  }
}
