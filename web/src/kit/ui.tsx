// The small parts that every page uses. Text of memory is always a child of an element, so that it is shown and never run.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import type { Kind } from "../api/schema";
import { ago, exactly, words } from "./format";
import type { Loaded } from "./load";

type Children = { children?: ComponentChildren };

/** A page: its title, the one sentence that answers first, then the rest. */
export function Page({ title, says, actions, children }: Children & { title: ComponentChildren; says?: ComponentChildren; actions?: ComponentChildren }) {
  return (
    <div class="page">
      <header class="page-head">
        <div>
          <h1>{title}</h1>
          {says && <p class="says">{says}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Section({ title, aside, children, id }: Children & { title: string; aside?: ComponentChildren; id?: string }) {
  return (
    <section class="section" id={id}>
      <header>
        <h2>{title}</h2>
        {aside && <span class="aside">{aside}</span>}
      </header>
      {children}
    </section>
  );
}

interface ButtonProps extends Omit<JSX.HTMLAttributes<HTMLButtonElement>, "size"> {
  kind?: "plain" | "main" | "danger" | "quiet";
  disabled?: boolean;
  type?: "button" | "submit";
  title?: string;
}

export function Button({ kind = "plain", type = "button", ...more }: ButtonProps) {
  return <button {...more} type={type} class={`button ${kind}`} />;
}

export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={exactly(at)}>
      {ago(at)}
    </time>
  );
}

/** A long id: its end, whole on hover, copied on click. */
export function ShortId({ id }: { id: string }) {
  const [copied, setCopied] = useState(false);
  const copy = (event: Event) => {
    event.preventDefault();
    event.stopPropagation();
    void navigator.clipboard?.writeText(id).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1200);
    });
  };
  const shown = short(id);
  return (
    <button type="button" class="id" title={`${id} (click to copy)`} onClick={copy}>
      {copied ? "copied" : shown}
    </button>
  );
}

const TYPOLOGIES: Record<Kind, string> = {
  chat_message: "message",
  tool_output: "tool output",
  session_summary: "summary",
  episode: "episode",
  fact: "fact",
  procedure: "procedure",
  entry: "entry",
  document_chunk: "document",
};

export const KINDS = Object.keys(TYPOLOGIES) as Kind[];

export function kindName(kind: string): string {
  return TYPOLOGIES[kind as Kind] ?? words(kind);
}

export function KindLabel({ kind }: { kind: string }) {
  return <span class={`kind kind-${kind}`}>{kindName(kind)}</span>;
}

export function Badge({ children, tone = "plain" }: Children & { tone?: "plain" | "good" | "warn" | "bad" | "accent" }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

export function Figure({ label, value, note, tone }: { label: string; value: ComponentChildren; note?: ComponentChildren; tone?: "warn" | "bad" }) {
  return (
    <div class={`figure ${tone ?? ""}`}>
      <div class="figure-label">{label}</div>
      <div class="figure-value">{value}</div>
      {note !== undefined && <div class="figure-note">{note}</div>}
    </div>
  );
}

/** What would be here, and how something gets here. */
export function Empty({ title, children, command }: Children & { title: string; command?: string }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
      {command && <pre>{command}</pre>}
    </div>
  );
}

export function ErrorBox({ error, retry }: { error: ApiError; retry?: () => void }) {
  const more = error.fields.filter((each) => each.message !== error.detail); // said already
  return (
    <div class="error" role="alert">
      <strong>{error.detail}</strong>
      {more.length > 0 && (
        <ul>
          {more.map((each) => (
            <li key={each.field}>
              {each.field}: {each.message}
            </li>
          ))}
        </ul>
      )}
      <div class="error-foot">
        <span class="muted">{error.code}</span>
        {error.requestId && (
          <>
            <span class="muted">request</span> <ShortId id={error.requestId} />
          </>
        )}
        {retry && (
          <Button kind="quiet" onClick={retry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}

export function Skeleton({ lines = 3 }: { lines?: number }) {
  return (
    <div class="skeleton" aria-hidden="true">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} style={{ width: `${90 - ((index * 17) % 45)}%` }} />
      ))}
    </div>
  );
}

/** What was loaded, or its error, or grey lines until it comes. */
export function Show<T>({ of, children, lines }: { of: Loaded<T>; children: (data: T) => ComponentChildren; lines?: number }) {
  if (of.error && of.data === undefined) return <ErrorBox error={of.error} retry={of.reload} />;
  if (of.data === undefined) return of.loading ? <Skeleton lines={lines} /> : null;
  return <>{children(of.data)}</>;
}

/** Something to unfold: what is inside is made, and loaded, when it is first opened. */
export function Unfold({ title, children }: { title: ComponentChildren; children: () => ComponentChildren }) {
  const [wasOpen, setWasOpen] = useState(false);
  return (
    <details onToggle={(event) => event.currentTarget.open && setWasOpen(true)}>
      <summary>{title}</summary>
      {wasOpen && children()}
    </details>
  );
}

/** Settings of a page; on a narrow screen they unfold at the touch of a button. */
export function Filters({ children, chosen = 0, role }: Children & { chosen?: number; role?: "search" }) {
  const [open, setOpen] = useState(false);
  return (
    <div class={`filters folding ${open ? "open" : ""}`} role={role}>
      <button type="button" class="button filters-button" aria-expanded={open} onClick={() => setOpen(!open)}>Filters{chosen > 0 ? ` (${chosen})` : ""}</button>
      {children}
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T | "";
  options: readonly (T | [T, string])[];
  any?: string;
  onChange: (value: T | "") => void;
}

export function Choice<T extends string>({ label, value, options, any, onChange }: ChoiceProps<T>) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value as T | "")}>
        {any !== undefined && <option value="">{any}</option>}
        {options.map((option) => {
          const [name, text] = typeof option === "string" ? [option, words(option)] : option;
          return (
            <option key={name} value={name}>
              {text}
            </option>
          );
        })}
      </select>
    </label>
  );
}

interface TextFieldProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
  type?: string;
  placeholder?: string;
  list?: string;
  autoFocus?: boolean;
}

export function TextField({ label, value, onInput, type = "text", placeholder, list, autoFocus }: TextFieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input type={type} value={value} placeholder={placeholder} list={list} autoFocus={autoFocus} spellcheck={false} autocomplete="off" onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}

export function Check({ label, checked, onChange }: { label: string; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} /> {label}
    </label>
  );
}

/** Names with their values; those without a value are left out. */
export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** Names with their values; what is empty is left out, and a long value is cut. */
export function Pairs({ of }: { of: Record<string, unknown> }) {
  const shown = Object.entries(of).filter(([, value]) => value !== null && value !== "");
  return <span class="pairs cell-text">{shown.map(([name, value]) => <span key={name} title={JSON.stringify(value)}><span class="muted">{words(name)}</span> {short(Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value))}</span>)}</span>;
}

const MACHINE_ID = /^[0-9a-f]{8}-[0-9a-f-]{27}$|^[0-9a-f]{24,}$/i;

/** The end of an id that a machine made; any other text as it is, or its beginning if it is very long. */
function short(text: string): string {
  if (MACHINE_ID.test(text)) return `…${text.slice(-8)}`;
  return text.length > 60 ? `${text.slice(0, 40)}…` : text;
}
