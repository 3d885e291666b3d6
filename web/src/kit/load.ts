// Answers of the API for components: at once from this page's memory, then fresh. `forgetAnswers` drops everything when
// somebody else signs in or the page acts for somebody else.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { acting, usePlace } from "./router";

const MOST = 200;
let answers = new Map<string, unknown>();
let generation = 0;

export function forgetAnswers(): void {
  answers = new Map();
  generation += 1;
}

function keep(key: string, value: unknown): void {
  answers.delete(key);
  answers.set(key, value);
  if (answers.size > MOST) answers.delete(answers.keys().next().value as string);
}

export interface Loaded<T> {
  data: T | undefined;
  error: ApiError | undefined;
  loading: boolean;
  reload: () => void;
}

/** Load something whenever `parts` change; null loads nothing. */
export function useLoad<T>(parts: unknown[] | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  usePlace();
  const key = parts === null ? null : JSON.stringify([acting(), parts]);
  const [state, setState] = useState<{ key: string | null; data?: T; error?: ApiError; loading: boolean }>({ key: null, loading: false });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    const began = generation;
    setState((before) => ({ key, data: (answers.get(key) as T | undefined) ?? (before.key === key ? before.data : undefined), loading: true }));
    latest.current(abort.signal).then(
      (data) => {
        if (abort.signal.aborted || began !== generation) return;
        keep(key, data);
        setState({ key, data, loading: false });
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        setState((before) => ({ key, data: before.key === key ? before.data : undefined, error: asApiError(error), loading: false }));
      },
    );
    return () => abort.abort();
  }, [key, turn]);
  const reload = useCallback(() => setTurn((count) => count + 1), []);
  const isCurrent = state.key === key;
  return {
    data: isCurrent ? state.data : key === null ? undefined : (answers.get(key) as T | undefined),
    error: isCurrent ? state.error : undefined,
    loading: key !== null && (!isCurrent || state.loading),
    reload,
  };
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, "page", error instanceof Error ? error.message : String(error), "");
}

/** Call `again` every so many seconds while the page is looked at. */
export function useEvery(seconds: number, again: () => void): void {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && latest.current(), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
}

/** A value that follows `value` once it has been quiet for a while. */
export function useQuiet<T>(value: T, milliseconds = 150): T {
  const [quiet, setQuiet] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setQuiet(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return quiet;
}
