// A table with named columns, which scrolls sideways where it must; and what a button does, with its failure.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { asApiError } from "./load";

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  class?: string;
}

export function DataTable<T>({ label, rows, columns, keyOf }: { label: string; rows: readonly T[]; columns: Column<T>[]; keyOf: (row: T) => string | number }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
      <table aria-label={label}>
        <thead>
          <tr>{columns.map((column) => <th key={column.title} class={column.class}>{column.title}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => <td key={column.title} class={column.class} data-title={column.title}>{column.cell(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Run calls of buttons one at a time; a failure is kept until the next one. */
export function useAction(): { run: (done: () => Promise<unknown>) => Promise<void>; error: ApiError | undefined; busy: boolean } {
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const run = async (done: () => Promise<unknown>) => {
    setBusy(true);
    try {
      await done();
      setError(undefined);
    } catch (failure) {
      setError(asApiError(failure));
    }
    setBusy(false);
  };
  return { run, error, busy };
}
