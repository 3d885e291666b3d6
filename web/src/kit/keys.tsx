// Keys: a page says which it knows while it is shown; `?` lists all of them.
import { useEffect } from "preact/hooks";
import { store } from "./store";

export interface Shortcut {
  key: string;
  what: string;
  run: (event: KeyboardEvent) => void;
}

export const shortcuts = store<Shortcut[]>([]);

export function useKeys(known: Shortcut[], parts: unknown[] = []): void {
  useEffect(() => {
    shortcuts.set([...shortcuts.get(), ...known]);
    return () => shortcuts.set(shortcuts.get().filter((each) => !known.includes(each)));
  }, parts);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

addEventListener("keydown", (event) => {
  const combined = (event.metaKey || event.ctrlKey ? "mod+" : "") + event.key.toLowerCase();
  if (event.altKey || document.querySelector("dialog[open]")) return;
  if (isTyping(event.target) && !combined.startsWith("mod+")) return;
  const found = shortcuts.get().findLast((each) => each.key === combined || (!combined.startsWith("mod+") && each.key === event.key));
  if (found) {
    event.preventDefault();
    found.run(event);
  }
});
