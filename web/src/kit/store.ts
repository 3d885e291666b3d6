// A value that components follow.
import { useEffect, useState } from "preact/hooks";

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

export function useStore<T>(source: Store<T>): T {
  const [, renew] = useState(0);
  useEffect(() => source.follow(() => renew((count) => count + 1)), [source]);
  return source.get();
}
