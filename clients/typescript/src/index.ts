import { RecordariError, problemOf } from "./errors.js"
import { NOT_KEYED, OPERATIONS, READS } from "./schema.js"
import type { AddedDocument, Event, Imported, Nothing, Operations } from "./schema.js"

export { type FieldProblem, RecordariError } from "./errors.js"
export type * from "./schema.js"

const FIRST_WAIT = 200 // milliseconds
const LONGEST_WAIT = 30 // seconds
const PASSING: ReadonlySet<number> = new Set([502, 503, 504])
const NOTHING_DONE: ReadonlySet<string> = new Set(["rate_limited", "overloaded"])

/** Whom a client acts for. A key that is bound to one of them needs no name. */
export interface Who {
  user?: string
  agent?: string
  session?: string
  run?: string
}

export interface ClientOptions extends Who {
  /** The address of the server; `http://127.0.0.1:8765`, if left out. */
  url?: string
  /** An API key (`rcd_…`) or a JWT; left out, your own `fetch` signs the requests, such as by a cookie. */
  key?: string
  /** How often a request that is safe to repeat is sent again; 2, if left out. */
  retries?: number
  /** Milliseconds after which a request is given up; 40,000, if left out. */
  timeout?: number
  /** Another `fetch`, for tests and proxies. */
  fetch?: typeof fetch
}

type Fields<T> = [T] extends [undefined] ? unknown : [T] extends [Nothing] ? unknown : T
/** What the client knows itself may be left out: the session or run that it acts in. */
type Implied<P> = Omit<P, "session_id" | "run_id" | "owner_id"> & Partial<Pick<P, keyof P & ("session_id" | "run_id" | "owner_id")>>

/** The arguments of a verb: the fields of its path, query and body together. */
export type Given<K extends keyof Operations> = Fields<Implied<Operations[K]["path"]>> &
  Fields<Operations[K]["query"]> &
  Fields<Operations[K]["body"]>
export type Answer<K extends keyof Operations> = Operations[K]["answer"]

export type Verb<K extends keyof Operations> =
  Partial<Given<K>> extends Given<K> ? (given?: Given<K>) => Promise<Answer<K>> : (given: Given<K>) => Promise<Answer<K>>

/** The verbs whose bodies or answers are not JSON; the client has a method of its own for each. */
type Streamed = "export" | "import_export" | "add_document" | "read_original"
/** Every verb that REST serves, by the name that it has in Python. */
export type Verbs = { [K in Exclude<keyof Operations, Streamed>]: Verb<K> }

/** The bytes of a file, or its text. */
export type FileData = Blob | ArrayBuffer | Uint8Array | string

export interface DocumentGiven {
  name: string
  data: FileData
  /** Such as `application/pdf`; found by the name, if left out. */
  media_type?: string
  source?: string
  title?: string
  metadata?: Record<string, unknown>
}

export interface FollowOptions {
  /** Events after this position; from now on, if left out. */
  after?: number
  types?: string[]
  signal?: AbortSignal
}

// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging
export interface Client extends Verbs {}

/** A client of one server under one key. Each verb takes one object and returns the answer of the server. */
export class Client {
  readonly #options: ClientOptions
  readonly #who: Who

  constructor(options: ClientOptions) {
    this.#options = options
    const { user, agent, session, run } = options
    this.#who = { ...(user && { user }), ...(agent && { agent }), ...(session && { session }), ...(run && { run }) }
  }

  /** The same client for another user, agent, session or run. */
  actingAs(who: Who): Client {
    return new Client({ ...this.#options, ...who })
  }

  /** Call an operation by its name; the signal gives it up. */
  async call<K extends keyof Operations>(
    name: K,
    given: Record<string, unknown> = {},
    { signal }: { signal?: AbortSignal | undefined } = {},
  ): Promise<Answer<K>> {
    const [method, template] = OPERATIONS[name]
    const { path, rest } = this.#placed(template, given)
    const isRead = method === "GET" || READS.has(name)
    const headers: Record<string, string> = {}
    if (method === "POST" && !isRead && !NOT_KEYED.has(name)) headers["Idempotency-Key"] = crypto.randomUUID()
    const asQuery = method === "GET" || method === "DELETE"
    const body = asQuery ? undefined : JSON.stringify(rest)
    if (body !== undefined) headers["Content-Type"] = "application/json"
    const repeatable = (method === "GET" || method === "POST") && !NOT_KEYED.has(name)
    const response = await this.#send(method, path + (asQuery ? queryOf(rest) : ""), { body, headers, repeatable, signal })
    const text = await response.text()
    return (text ? JSON.parse(text) : undefined) as Answer<K>
  }

  /** The changes of the tenant while they happen. It ends when the server ends the stream, or with the signal. */
  async *follow_events({ after, types, signal }: FollowOptions = {}): AsyncGenerator<Event, void, undefined> {
    const query = queryOf({ ...(after !== undefined && { after }), ...(types && { types }) })
    const headers = { Accept: "text/event-stream" }
    const response = await this.#send("GET", `/v1/events${query}`, { headers, repeatable: true, signal, streams: true })
    let isEnd = false
    for await (const line of linesOf(response)) {
      if (line.startsWith("event:")) isEnd = line.slice(6).trim() === "end"
      else if (line.startsWith("data:")) {
        const data: unknown = JSON.parse(line.slice(5))
        if (isEnd) throw new RecordariError((data as { detail: string }).detail, { code: "overloaded", status: 503 })
        yield data as Event
      }
    }
  }

  /** Everything of the tenant or of one user, one line of JSON at a time. */
  async *export({ user_id }: { user_id?: string } = {}): AsyncGenerator<string, void, undefined> {
    const response = await this.#send("GET", `/v1/export${queryOf({ user_id })}`, { headers: {}, repeatable: true, streams: true })
    for await (const line of linesOf(response)) if (line) yield line
  }

  /** Write the lines of an export that this tenant does not have. They are sent while they are read. */
  async import_export(lines: string | Iterable<string> | AsyncIterable<string>): Promise<Imported> {
    const body = typeof lines === "string" ? lines : streamOf(lines)
    const headers = { "Content-Type": "application/x-ndjson" }
    const response = await this.#send("POST", "/v1/import_export", { body, headers, repeatable: false, streams: true })
    return (await response.json()) as Imported
  }

  /** Add a document, or its next revision under the same name. */
  async add_document({ name, data, media_type, source, title, metadata }: DocumentGiven): Promise<AddedDocument> {
    const body = new FormData()
    const type = media_type ?? (data instanceof Blob ? data.type : typeof data === "string" ? "text/plain" : "")
    body.append("file", new Blob([data as BlobPart], { type }), name)
    body.append("name", name)
    if (source !== undefined) body.append("source", source)
    if (metadata !== undefined) body.append("metadata", JSON.stringify(metadata))
    const response = await this.#send("POST", `/v1/documents${queryOf({ title })}`, { body, headers: {}, repeatable: false })
    return (await response.json()) as AddedDocument
  }

  /** The file of a document, as it was added. */
  async read_original({ document_id }: { document_id: string }): Promise<ArrayBuffer> {
    const path = `/v1/documents/${encodeURIComponent(document_id)}/original`
    return (await this.#send("GET", path, { headers: {}, repeatable: true })).arrayBuffer()
  }

  #placed(template: string, given: Record<string, unknown>): { path: string; rest: Record<string, unknown> } {
    const rest: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(given)) if (value !== undefined) rest[name] = value
    const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
      const owner = name === "owner_id" ? String(given["owner"] ?? "session") : name.replace(/_id$/, "")
      const value = rest[name] ?? (name === "owner" ? "session" : this.#who[owner as keyof Who])
      if (value === undefined) {
        throw new RecordariError(`give ${name}, or act in a ${owner}`, { code: "invalid_input", status: 422, field: name })
      }
      delete rest[name]
      return encodeURIComponent(String(value))
    })
    return { path, rest }
  }

  async #send(
    method: string,
    path: string,
    how: {
      body?: string | FormData | ReadableStream<Uint8Array> | undefined
      headers: Record<string, string>
      repeatable: boolean
      signal?: AbortSignal | undefined
      streams?: boolean
    },
  ): Promise<Response> {
    const { url = "http://127.0.0.1:8765", key, retries = 2, timeout = 40_000, fetch: send = fetch } = this.#options
    const headers = new Headers(how.headers)
    if (key !== undefined) headers.set("Authorization", `Bearer ${key}`)
    for (const [noun, name] of Object.entries(this.#who)) headers.set(`Recordari-${noun}`, latin1(name))
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt >= retries
      let wait = FIRST_WAIT * 2 ** attempt * (0.5 + Math.random() / 2)
      try {
        const signal = how.signal ?? (how.streams ? null : AbortSignal.timeout(timeout))
        const half = how.body instanceof ReadableStream ? { duplex: "half" } : {}
        const response = await send(url.replace(/\/$/, "") + path, { method, headers, body: how.body ?? null, signal, ...half })
        if (response.ok) return response
        const problem = await problemOf(response)
        const again = NOTHING_DONE.has(problem.code) || (how.repeatable && PASSING.has(response.status))
        if (isLast || !again || (problem.retryAfter ?? 0) > LONGEST_WAIT) throw problem
        if (problem.retryAfter !== undefined) wait = problem.retryAfter * 1000
      } catch (error) {
        if (error instanceof RecordariError || how.signal?.aborted) throw error
        const isLate = error instanceof DOMException && error.name === "TimeoutError"
        if (isLast || !how.repeatable) {
          const message = isLate ? "the server did not answer in time" : "the Recordari server cannot be reached"
          throw new RecordariError(message, { code: isLate ? "timed_out" : "provider_error", status: isLate ? 504 : 502, cause: error })
        }
      }
      await new Promise((resolve) => setTimeout(resolve, wait))
    }
  }
}

for (const name of Object.keys(OPERATIONS) as Array<keyof Operations>) {
  if (name in Client.prototype) continue
  Object.defineProperty(Client.prototype, name, {
    value(this: Client, given?: Record<string, unknown>) {
      return this.call(name, given)
    },
  })
}

/** A header carries bytes: names in any script are sent as UTF-8. */
function latin1(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("")
}

function queryOf(fields: Record<string, unknown>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (one !== null && one !== undefined) query.append(name, String(one))
    }
  }
  const text = query.toString()
  return text && `?${text}`
}

/** Lines as the bytes of a body that is sent while it is made. */
function streamOf(lines: Iterable<string> | AsyncIterable<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const source = Symbol.asyncIterator in lines ? lines[Symbol.asyncIterator]() : lines[Symbol.iterator]()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await source.next()
      if (done) controller.close()
      else controller.enqueue(encoder.encode(`${value.replace(/\n$/, "")}\n`))
    },
    async cancel() {
      await source.return?.()
    },
  })
}

async function* linesOf(response: Response): AsyncGenerator<string, void, undefined> {
  if (!response.body) return
  const reader = response.body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader()
  let rest = ""
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      const lines = (rest + value).split("\n")
      rest = lines.pop() ?? ""
      yield* lines
    }
    if (rest) yield rest
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
