/**
 * Recordari for the Vercel AI SDK: tools that a model calls, and a middleware that shows memory and keeps what is said.
 * It imports nothing of the SDK, so that it fits the version that you have.
 */
import type { Client } from "./index.js"

const SCHEMA = Symbol.for("vercel.ai.schema")
const SHORTEST_ECHO = 20 // letters of a sentence that is taken for memory's own

/** A tool of the AI SDK, typed by what its function gets. */
export interface MemoryTool<T> {
  description: string
  /** A JSON schema as the SDK takes it. Its type there has a symbol that no other package can name. */
  inputSchema: any
  execute: (given: T) => Promise<unknown>
}

function schema(properties: Record<string, unknown>, required: string[]) {
  const jsonSchema = { type: "object", properties, required, additionalProperties: false }
  return { [SCHEMA]: true, jsonSchema, validate: undefined }
}

/** `recall`, `remember_fact` and `forget`, for the option `tools` of `generateText`, `streamText` or an agent. */
export function memoryTools(client: Client): {
  recall: MemoryTool<{ query: string; top_k?: number }>
  remember_fact: MemoryTool<{ content: string }>
  forget: MemoryTool<{ id: string }>
} {
  const text = (description: string) => ({ type: "string", description })
  return {
    recall: {
      description:
        "Search long-term memory: what was said before, facts about the user, results of tools, documents. Ask in plain " +
        "words with the names and numbers that you know. An empty answer means that nothing is known: say so.",
      inputSchema: schema(
        { query: text("The question."), top_k: { type: "integer", minimum: 1, maximum: 20 } },
        ["query"],
      ),
      execute: async (given) => {
        const { items } = await client.recall(given)
        return items.map(({ id, content, event_time, trust, source_kind }) => ({ id, content, event_time, trust, source_kind }))
      },
    },
    remember_fact: {
      description:
        "Keep one fact beyond this conversation, as a full sentence with names instead of pronouns. When a fact has " +
        "changed, state the new one; the old one is retired.",
      inputSchema: schema({ content: text("The fact.") }, ["content"]),
      execute: async ({ content }) => client.remember_fact({ content }),
    },
    forget: {
      description: "Remove one memory for good. Only when the user asks for it; it cannot be undone.",
      inputSchema: schema({ id: text("`id` of a recalled memory.") }, ["id"]),
      execute: async ({ id }) => client.forget({ item_id: id }),
    },
  }
}

interface Part {
  type: string
  text?: string
  delta?: string
}
interface Message {
  role: "system" | "user" | "assistant" | "tool"
  content: string | Part[]
}
interface Parameters {
  prompt: Message[]
}

export interface MiddlewareOptions {
  /** Most tokens of the context. */
  budget?: number
  /** Whether what is said is kept; true, if left out. */
  keep?: boolean
  /** Told when memory could not be asked: the model is called all the same. */
  onError?: (error: unknown) => void
}

/**
 * A middleware for `wrapLanguageModel`: it shows the model the context for the last message of the user, and keeps that
 * message and the answer. The client acts in a session. What it shows is never part of what it keeps: sentences of memory
 * that the answer repeats are left out.
 */
export function memoryMiddleware(client: Client, options: MiddlewareOptions = {}) {
  const { budget = 2_000, keep = true, onError } = options
  const safely = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work()
    } catch (error) {
      onError?.(error)
      return undefined
    }
  }
  const save = (params: object, said: string) => {
    const { prompt, shown } = calls.get(params) ?? { prompt: (params as Parameters).prompt, shown: [] }
    // A tool's result follows the same question: it is kept once.
    const asked = prompt.at(-1)?.role === "user" ? textOf(prompt.at(-1)) : undefined
    const answer = withoutEcho(said, shown)
    const messages = [
      ...(asked ? [{ role: "user" as const, content: asked }] : []),
      ...(answer.trim() ? [{ role: "assistant" as const, content: answer }] : []),
    ]
    return keep && messages.length ? safely(() => client.add_messages({ messages })) : undefined
  }
  const calls = new WeakMap<object, { prompt: Message[]; shown: string[] }>()
  return {
    specificationVersion: "v3" as const,
    async transformParams<P extends object>({ params }: { params: P }): Promise<P> {
      const { prompt } = params as unknown as Parameters
      const question = textOf(prompt.findLast((message) => message.role === "user"))
      if (!question) return params
      const context = await safely(() => client.get_context({ question: question.slice(0, 8_000), budget, profile: "start" }))
      if (!context?.text) return params
      const last = prompt.findLastIndex((message) => message.role === "system") + 1
      const shown: Message = { role: "system", content: context.text }
      const changed = { ...params, prompt: [...prompt.slice(0, last), shown, ...prompt.slice(last)] } as P
      calls.set(changed, { prompt, shown: context.sections.flatMap(({ items }) => items.map(({ content }) => content)) })
      return changed
    },
    async wrapGenerate<R>({ doGenerate, params }: { doGenerate: () => PromiseLike<R>; params: object }): Promise<R> {
      const result = await doGenerate()
      const content = (result as { content?: Part[] }).content ?? []
      await save(params, textOf({ role: "assistant", content }))
      return result
    },
    async wrapStream<R>({ doStream, params }: { doStream: () => PromiseLike<R>; params: object }): Promise<R> {
      const result = await doStream()
      let answer = ""
      const watch = new TransformStream<Part, Part>({
        transform(part, controller) {
          if (part.type === "text-delta") answer += part.delta ?? ""
          controller.enqueue(part)
        },
        async flush() {
          await save(params, answer)
        },
      })
      const { stream, ...rest } = result as { stream: ReadableStream<Part> }
      return { ...rest, stream: stream.pipeThrough(watch) } as R
    },
  }
}

function textOf(message: Message | undefined): string {
  if (!message) return ""
  if (typeof message.content === "string") return message.content
  return message.content
    .filter((part) => part.type === "text")
    .map((part) => part.text ?? "")
    .join("\n")
}

/** An answer without the sentences that it repeats of what was shown. */
function withoutEcho(answer: string, shown: string[]): string {
  let text = answer
  for (const sentence of shown.flatMap((one) => one.split(/(?<=[.!?])\s+|(?<=[。！？])|\n+/u))) {
    const words = sentence.match(/[\p{L}\p{N}]+/gu) ?? []
    if (words.join("").length < SHORTEST_ECHO) continue
    const repeated = `(?<![\\p{L}\\p{N}])${words.join("[^\\p{L}\\p{N}]+")}(?![\\p{L}\\p{N}])[.!?。！？]?`
    text = text.replace(new RegExp(repeated, "giu"), "…")
  }
  return text === answer || /[\p{L}\p{N}]/u.test(text) ? text : ""
}
