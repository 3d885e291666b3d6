/** What the server refused, or why it could not be asked. `code` is the same word as in every other client. */
export class RecordariError extends Error {
  readonly code: string
  readonly status: number
  /** The field of the request that was wrong, where one was. */
  readonly field: string | undefined
  readonly requestId: string | undefined
  /** Seconds after which to try again, where the server says so. */
  readonly retryAfter: number | undefined

  constructor(
    message: string,
    { code, status, ...more }: { code: string; status: number; field?: string; requestId?: string; retryAfter?: number },
  ) {
    super(message)
    this.name = "RecordariError"
    this.code = code
    this.status = status
    this.field = more.field
    this.requestId = more.requestId
    this.retryAfter = more.retryAfter
  }
}

interface Problem {
  code?: string
  detail?: string
  instance?: string
  errors?: Array<{ field: string; message: string }>
}

/** The error of a response that is not a success. */
export async function problemOf(response: Response): Promise<RecordariError> {
  const problem = ((await response.json().catch(() => ({}))) ?? {}) as Problem
  const faults = problem.errors ?? []
  const wait = Number(response.headers.get("retry-after"))
  const specific = faults.map((fault) => `${fault.field.replace(/^body\./, "")}: ${fault.message}`).join("; ")
  return new RecordariError(specific || problem.detail || `the server answered ${response.status}`, {
    code: problem.code ?? "unknown",
    status: response.status,
    ...(faults[0] ? { field: faults[0].field.replace(/^body\./, "") } : {}),
    ...(problem.instance ? { requestId: problem.instance } : {}),
    ...(wait > 0 ? { retryAfter: wait } : {}),
  })
}
