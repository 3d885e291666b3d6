// A value that components follow.
import { useLayoutEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  follow(changed: () => void): () => void;
}

export function store<T>(value: T): Store<T> {
  const followers = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const each of [...followers]) each();
    },
    follow(changed) {
      followers.add(changed);
      return () => followers.delete(changed);
    },
  };
}

/** The value now. It is followed from the first rendering on: effects run a frame later, and would miss a change until then. */
export function useStore<T>(source: Store<T>): T {
  const [, renew] = useState(0);
  const shown = source.get();
  useLayoutEffect(() => {
    const show = () => renew((count) => count + 1);
    if (!Object.is(source.get(), shown)) show();
    return source.follow(show);
  }, [source]);
  return shown;
}
