// The API, by the TypeScript client, with the cookie of this browser instead of a key.
import { problemOf } from "../../../clients/typescript/src/errors";
import { Client, type FieldProblem, RecordariError } from "../../../clients/typescript/src/index";
import { type Acting, acting } from "../kit/router";
import type { Operations } from "./schema";

export type { FieldProblem };
export type Verb = keyof Operations;
export type Answer<V extends Verb> = Operations[V]["answer"];

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly requestId: string,
    readonly fields: readonly FieldProblem[] = [],
  ) {
    super(detail);
  }
}

interface Sent<V extends Verb> {
  path?: Operations[V]["path"];
  query?: Operations[V]["query"];
  body?: Operations[V]["body"];
  signal?: AbortSignal;
  /** Whom this call acts for; otherwise whom the page acts for. */
  as?: Acting;
}

const client = new Client({ url: "", fetch: fetchHere });

let signedOut: () => void = () => undefined;

/** Called when the sign-in of this browser has ended. */
export function whenSignedOut(then: () => void): void {
  signedOut = then;
}

function fetchHere(url: string | URL | Request, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set("Recordari-Page", "1");
  return fetch(url, { ...options, headers, credentials: "same-origin", cache: "no-store" });
}

export function call<V extends Verb>(verb: V, sent: Sent<V> = {}): Promise<Answer<V>> {
  const query = Object.fromEntries(Object.entries(sent.query ?? {}).filter(([, value]) => value !== ""));
  const given = { ...sent.path, ...query, ...(sent.body as object | undefined) };
  return explained(client.actingAs(sent.as ?? acting()).call(verb, given, { signal: sent.signal }));
}

/** Add a file to what agents can look up. */
export function addDocument(file: File, source?: string): Promise<Answer<"add_document">> {
  return explained(client.add_document({ name: file.name, data: file, source }));
}

/** The answer, or what to tell the person at the page. */
async function explained<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof RecordariError)) throw error;
    if (error.cause !== undefined) throw new ApiError(0, "unreachable", "The server does not answer. Is it running?", "");
    if (error.status === 401 && !(await isSignedIn())) signedOut();
    throw new ApiError(error.status, error.code, error.detail, error.requestId ?? "", error.fields);
  }
}

/** A call may be refused for want of a user or agent; only without one at all is the sign-in over. */
async function isSignedIn(): Promise<boolean> {
  const answer = await fetch("/v1/whoami", { credentials: "same-origin", cache: "no-store" });
  return answer.status !== 401;
}

export function signIn(given: { credential: string } | { code: string }): Promise<void> {
  return signs({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) });
}

export function signOut(): Promise<void> {
  return signs({ method: "DELETE" });
}

async function signs(options: RequestInit): Promise<void> {
  const answer = await fetchHere("/sign_in", options).catch(() => {
    throw new ApiError(0, "unreachable", "The server does not answer. Is it running?", "");
  });
  if (!answer.ok) await explained(Promise.reject(await problemOf(answer)));
}
