// The API, thinly: `call` sends one operation of the description with the cookie of this browser.
import { type Acting, acting } from "../kit/router";
import { OPERATIONS, type Operations } from "./schema";

export type Verb = keyof Operations;
export type Answer<V extends Verb> = Operations[V]["answer"];

export interface FieldProblem {
  field: string;
  message: string;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly requestId: string,
    readonly fields: FieldProblem[] = [],
  ) {
    super(detail);
  }
}

interface Sent<V extends Verb> {
  path?: Operations[V]["path"];
  query?: Operations[V]["query"];
  body?: Operations[V]["body"];
  /** A file to send as it is, instead of a JSON body. */
  file?: Blob;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** Whom this call acts for; otherwise whom the page acts for. */
  as?: Acting;
}

const HEADERS: Record<keyof Acting, string> = { user: "Recordari-User", agent: "Recordari-Agent", session: "Recordari-Session" };

let signedOut: () => void = () => undefined;

/** Called when the sign-in of this browser has ended. */
export function whenSignedOut(then: () => void): void {
  signedOut = then;
}

/** A header holds bytes: those of UTF-8. */
function inHeader(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

function addressOf(path: string, values: Record<string, unknown>, query: Record<string, unknown>): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name] ?? "")));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) search.append(name, String(each));
  }
  const text = search.toString();
  return text ? `${filled}?${text}` : filled;
}

export async function call<V extends Verb>(verb: V, sent: Sent<V> = {}): Promise<Answer<V>> {
  const [method, path] = OPERATIONS[verb];
  const headers: Record<string, string> = { Accept: "application/json", "Recordari-Page": "1", ...sent.headers };
  for (const [name, value] of Object.entries(sent.as ?? acting()) as [keyof Acting, string | undefined][]) {
    if (value) headers[HEADERS[name]] = inHeader(value);
  }
  if (sent.body !== undefined) headers["Content-Type"] = "application/json";
  if (sent.file && sent.file.type) headers["Content-Type"] = sent.file.type;
  const url = addressOf(path, (sent.path ?? {}) as Record<string, unknown>, (sent.query ?? {}) as Record<string, unknown>);
  const body = sent.file ?? (sent.body === undefined ? undefined : JSON.stringify(sent.body));
  return (await send(url, { method, headers, body, signal: sent.signal })) as Answer<V>;
}

async function send(url: string, options: RequestInit): Promise<unknown> {
  let answer: Response;
  try {
    answer = await fetch(url, { ...options, credentials: "same-origin", cache: "no-store" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer. Is it running?", "");
  }
  if (answer.ok) return answer.status === 204 ? undefined : answer.json();
  const problem = await answer.json().catch(() => ({}));
  if (answer.status === 401 && !(await isSignedIn())) signedOut();
  throw new ApiError(
    answer.status,
    problem.code ?? "unknown",
    problem.detail ?? `The server answered with ${answer.status}.`,
    problem.instance ?? answer.headers.get("x-request-id") ?? "",
    problem.errors ?? [],
  );
}

/** A call may be refused for want of a user or agent; only without one at all is the sign-in over. */
async function isSignedIn(): Promise<boolean> {
  const answer = await fetch("/v1/whoami", { credentials: "same-origin", cache: "no-store" });
  return answer.status !== 401;
}

export function signIn(given: { credential: string } | { code: string }): Promise<unknown> {
  const headers = { "Content-Type": "application/json", "Recordari-Page": "1" };
  return send("/sign_in", { method: "POST", headers, body: JSON.stringify(given) });
}

export function signOut(): Promise<unknown> {
  return send("/sign_in", { method: "DELETE", headers: { "Recordari-Page": "1" } });
}
