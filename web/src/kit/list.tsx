// Long lists: pages by cursor, and only the rows in view are in the document. j and k move, Enter opens.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { useKeys } from "./keys";
import { asApiError } from "./load";
import { acting } from "./router";
import { ErrorBox, Skeleton } from "./ui";

const OVERSCAN = 8;

export interface Paged<T> {
  items: T[];
  next_cursor: string | null;
}

interface Rows<T> {
  rows: T[];
  done: boolean;
  error: ApiError | undefined;
  loading: boolean;
  more: () => void;
  reload: () => void;
}

/** Rows of a list that the API gives in pages; they begin anew whenever `parts` change. */
export function usePages<T>(parts: unknown[], load: (cursor: string | undefined, signal: AbortSignal) => Promise<Paged<T>>): Rows<T> {
  const key = JSON.stringify([acting(), parts]);
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState<{ key: string; rows: T[]; cursor: string | null; error?: ApiError; loading: boolean }>({ key: "", rows: [], cursor: null, loading: true });
  const latest = useRef(load);
  latest.current = load;
  const running = useRef<AbortController | null>(null);
  const fetchPage = useCallback(
    (rows: T[], cursor: string | null) => {
      running.current?.abort();
      const abort = new AbortController();
      running.current = abort;
      setState({ key, rows, cursor, loading: true });
      latest.current(cursor ?? undefined, abort.signal).then(
        (page) => !abort.signal.aborted && setState({ key, rows: [...rows, ...page.items], cursor: page.next_cursor, loading: false }),
        (error) => !abort.signal.aborted && setState({ key, rows, cursor, error: asApiError(error), loading: false }),
      );
    },
    [key],
  );
  useEffect(() => {
    fetchPage([], null);
    return () => running.current?.abort();
  }, [key, turn]);
  const isCurrent = state.key === key;
  const rows = isCurrent ? state.rows : [];
  const more = useCallback(() => {
    if (isCurrent && !state.loading && state.cursor !== null && !state.error) fetchPage(state.rows, state.cursor);
  }, [state, isCurrent, fetchPage]);
  return { rows, done: isCurrent && !state.loading && state.cursor === null, error: isCurrent ? state.error : undefined, loading: !isCurrent || state.loading, more, reload: useCallback(() => setTurn((count) => count + 1), []) };
}

interface ListProps<T> {
  pages: Rows<T>;
  /** Every row has this height. */
  height: number;
  row: (item: T, isChosen: boolean) => ComponentChildren;
  keyOf: (item: T) => string;
  open?: (item: T) => void;
  onChoose?: (item: T | undefined) => void;
  empty: ComponentChildren;
  label: string;
}

export function List<T>({ pages, height, row, keyOf, open, onChoose, empty, label }: ListProps<T>) {
  const element = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState<[number, number]>([0, 40]);
  const [chosen, setChosen] = useState(-1);
  const { rows } = pages;
  const look = useCallback(() => {
    const list = element.current;
    const scroller = list?.closest("main");
    if (!list || !scroller) return;
    const top = scroller.getBoundingClientRect().top - list.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - OVERSCAN);
    const last = Math.ceil((top + scroller.clientHeight) / height) + OVERSCAN;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  }, [height]);
  useLayoutEffect(look, [rows.length, look]);
  useEffect(() => {
    const scroller = element.current?.closest("main");
    scroller?.addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      scroller?.removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [look, rows.length > 0]); // without rows there is no list yet
  useEffect(() => {
    if (range[1] >= rows.length - OVERSCAN) pages.more();
  }, [range, rows.length, pages.more]);
  const choose = (index: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    setChosen(next);
    onChoose?.(rows[next]);
    const scroller = element.current?.closest("main");
    if (!scroller || !element.current) return;
    const top = element.current.getBoundingClientRect().top - scroller.getBoundingClientRect().top + next * height;
    if (top < 0) scroller.scrollBy({ top: top - 8 });
    else if (top + height > scroller.clientHeight) scroller.scrollBy({ top: top + height - scroller.clientHeight + 8 });
  };
  useKeys(
    [
      { key: "j", what: "next row", run: () => choose(chosen + 1) },
      { key: "k", what: "row before", run: () => choose(chosen - 1) },
      {
        key: "Enter",
        what: "open the row",
        run: () => {
          const item = rows[chosen];
          if (item !== undefined) open?.(item);
        },
      },
    ],
    [chosen, rows, open],
  );
  if (pages.error && rows.length === 0) return <ErrorBox error={pages.error} retry={pages.reload} />;
  if (rows.length === 0) return pages.loading ? <Skeleton lines={8} /> : <>{empty}</>;
  const shown = rows.slice(range[0], range[1]);
  return (
    <div class="list">
      <div ref={element} class="list-space" style={{ height: `${rows.length * height}px` }} role="list" aria-label={label}>
        {shown.map((item, index) => {
          const number = range[0] + index;
          return (
            <div key={keyOf(item)} role="listitem" class={`list-row ${number === chosen ? "chosen" : ""}`} style={{ top: `${number * height}px`, height: `${height}px` }}>
              {row(item, number === chosen)}
            </div>
          );
        })}
      </div>
      {pages.error ? <ErrorBox error={pages.error} retry={pages.reload} /> : pages.loading && <Skeleton lines={2} />}
    </div>
  );
}
