// Places the nodes of a graph in a thread of its own, so that the page stays quick; tells now and then where they are.
import { Forces, type GraphToPlace, STEPS } from "./forces";

export interface PlacesAsked {
  graph: GraphToPlace;
  /** How often the places are told on the way. */
  times: number;
}

addEventListener("message", (event: MessageEvent<PlacesAsked>) => {
  const forces = new Forces(event.data.graph);
  while (!forces.isDone) {
    forces.run(Math.ceil(STEPS / event.data.times));
    postMessage(forces.places);
  }
  close();
});
