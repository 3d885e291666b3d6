export interface FieldProblem {
  field: string
  message: string
}

/** What the server refused, or why it could not be asked. `code` is the same word as in every other client. */
export class RecordariError extends Error {
  readonly code: string
  readonly status: number
  /** The field of the request that was wrong, where one was. */
  readonly field: string | undefined
  /** All fields that were wrong, with the reason for each. */
  readonly fields: readonly FieldProblem[]
  /** What the server says of the request as a whole; `message` names the fields where there are some. */
  readonly detail: string
  readonly requestId: string | undefined
  /** Seconds after which to try again, where the server says so. */
  readonly retryAfter: number | undefined

  constructor(
    message: string,
    {
      code,
      status,
      ...more
    }: {
      code: string
      status: number
      field?: string
      fields?: FieldProblem[]
      detail?: string
      requestId?: string
      retryAfter?: number
      cause?: unknown
    },
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause })
    this.name = "RecordariError"
    this.code = code
    this.status = status
    this.field = more.field ?? more.fields?.[0]?.field
    this.fields = more.fields ?? []
    this.detail = more.detail ?? message
    this.requestId = more.requestId
    this.retryAfter = more.retryAfter
  }
}

interface Problem {
  code?: string
  detail?: string
  instance?: string
  errors?: FieldProblem[]
}

/** The error of a response that is not a success. */
export async function problemOf(response: Response): Promise<RecordariError> {
  const problem = ((await response.json().catch(() => ({}))) ?? {}) as Problem
  const fields = (problem.errors ?? []).map(({ field, message }) => ({ field: field.replace(/^body\./, ""), message }))
  const requestId = problem.instance ?? response.headers.get("x-request-id")
  const wait = Number(response.headers.get("retry-after"))
  const specific = fields.map(({ field, message }) => `${field}: ${message}`).join("; ")
  return new RecordariError(specific || problem.detail || `the server answered ${response.status}`, {
    code: problem.code ?? "unknown",
    status: response.status,
    fields,
    ...(problem.detail ? { detail: problem.detail } : {}),
    ...(requestId ? { requestId } : {}),
    ...(wait > 0 ? { retryAfter: wait } : {}),
  })
}
