/**
 * Recordari as the memory of a Mastra agent: a thread is a session, a resource is a user. It shows the last messages of the
 * thread and what memory knows about the question, and keeps what is said. It needs `@mastra/core`.
 */
import { MastraMemory } from "@mastra/core/memory"

import { RecordariError } from "./errors.js"
import type { Client, Message, MessagePage, Session } from "./index.js"

type Thread = Awaited<ReturnType<MastraMemory["saveThread"]>>
type DBMessage = Parameters<MastraMemory["saveMessages"]>[0]["messages"][number]
type InputProcessor = Awaited<ReturnType<MastraMemory["getInputProcessors"]>>[number]
type OutputProcessor = Awaited<ReturnType<MastraMemory["getOutputProcessors"]>>[number]
type Given<M extends keyof MastraMemory> = MastraMemory[M] extends (given: infer G, ...rest: never[]) => unknown ? G : never

const MOST_KNOWN = 10_000 // threads whose user is remembered in this process
const PAGE = 100
const WORKING_MEMORY = ["mastra", "working-memory"]

export interface RecordariMemoryOptions {
  client: Client
  /** Most tokens of what memory knows; 2,000, if left out. */
  budget?: number
  /** Messages of the thread that the model sees again; 20, if left out. */
  lastMessages?: number
  /** Told when memory could not be asked in a call of the agent: the model is called all the same. */
  onError?: (error: unknown) => void
}

/** The memory of a Mastra agent. Tool calls are not part of the history that it shows; their words are, if the agent says them. */
export class RecordariMemory extends MastraMemory {
  readonly #options: Required<Omit<RecordariMemoryOptions, "onError">> & Pick<RecordariMemoryOptions, "onError">
  readonly #resources = new Map<string, string>()

  constructor({ client, budget = 2_000, lastMessages = 20, onError }: RecordariMemoryOptions) {
    super({ name: "recordari" })
    this.#options = { client, budget, lastMessages, ...(onError && { onError }) }
  }

  override async getInputProcessors(): Promise<InputProcessor[]> {
    const processInput = async ({ messageList, requestContext }: Parameters<NonNullable<InputProcessor["processInput"]>>[0]) => {
      const place = placeOf(requestContext, messageList)
      if (!place) return messageList
      const { budget, lastMessages } = this.#options
      const client = this.#clientOf(place.threadId, place.resourceId)
      const question = messageList.getLatestUserContent()?.slice(0, 8_000)
      const [earlier, context] = await Promise.all([
        this.#safely(() => this.#last(place.threadId, lastMessages)),
        this.#safely(() => client.get_context({ ...(question && { question }), budget, profile: "start" })),
      ])
      for (const message of earlier ?? []) messageList.add(message, "memory")
      if (context?.text) messageList.addSystem(context.text, "recordari")
      return messageList
    }
    return [{ id: "recordari", processInput } as InputProcessor]
  }

  override async getOutputProcessors(): Promise<OutputProcessor[]> {
    const processOutputResult = async ({
      messageList,
      requestContext,
    }: Parameters<NonNullable<OutputProcessor["processOutputResult"]>>[0]) => {
      const place = placeOf(requestContext, messageList)
      if (!place || place.readOnly) return messageList
      this.#clientOf(place.threadId, place.resourceId)
      const said = [...messageList.get.input.db(), ...messageList.get.response.db()]
      await this.#safely(() => this.saveMessages({ messages: said.map((one) => ({ ...one, threadId: place.threadId })) }))
      return messageList
    }
    return [{ id: "recordari", processOutputResult } as OutputProcessor]
  }

  async getThreadById({ threadId }: { threadId: string }): Promise<Thread | null> {
    const session = await this.#safely(() => orNull(this.#clientOf(threadId).get_session({ session_id: threadId })))
    return session ? this.#threadOf(session, threadId) : null
  }

  async listThreads({ filter, page = 0, perPage = 100 }: Given<"listThreads">): ReturnType<MastraMemory["listThreads"]> {
    const { client } = this.#options
    const wanted = Object.entries(filter?.metadata ?? {})
    const threads: Thread[] = []
    for (let cursor: string | null = null, isFirst = true; isFirst || cursor; isFirst = false) {
      const user_id = filter?.resourceId
      const found = await (user_id ? client.actingAs({ user: user_id }) : client).list_sessions({
        limit: PAGE,
        ...(user_id && { user_id }),
        ...(cursor && { cursor }),
      })
      threads.push(...found.items.map((session) => this.#threadOf(session, session.session_id)))
      cursor = found.next_cursor
    }
    const all = threads.filter((thread) => wanted.every(([name, value]) => thread.metadata?.[name] === value))
    const first = perPage === false ? 0 : page * perPage
    const shown = perPage === false ? all : all.slice(first, first + perPage)
    return { threads: shown, total: all.length, page, perPage, hasMore: first + shown.length < all.length }
  }

  /** Open the session of a thread. A thread keeps the title and metadata that it was opened with. */
  async saveThread({ thread }: Given<"saveThread">): Promise<Thread> {
    const metadata = { ...thread.metadata, ...(thread.title && { title: thread.title }) }
    const client = this.#clientOf(thread.id, thread.resourceId)
    const opened = await this.#safely(() => client.open_session({ session_id: thread.id, metadata }))
    return opened ? { ...thread, ...this.#threadOf(opened.session, thread.id) } : thread
  }

  async updateThread({ id, ...change }: Given<"updateThread">): Promise<Thread> {
    const thread = (await this.getThreadById({ threadId: id })) ?? { id, resourceId: this.#resources.get(id) ?? id, ...now() }
    return this.saveThread({ thread: { ...thread, ...change } as Thread })
  }

  /** Forget every message of a thread, and close its session. */
  async deleteThread(threadId: string): Promise<void> {
    const { messages } = await this.recall({ threadId, perPage: false })
    await this.deleteMessages(messages.map((message) => message.id))
    await this.#clientOf(threadId).close_session({ session_id: threadId })
  }

  /** Keep what people and the agent say, each message once. The ids of the answer are those of the memories. */
  async saveMessages({ messages }: Given<"saveMessages">): Promise<{ messages: DBMessage[] }> {
    const saved: DBMessage[] = []
    for (const [threadId, group] of byThread(messages)) {
      const said = group.filter((message) => (message.role === "user" || message.role === "assistant") && textOf(message))
      if (!threadId || !said.length) continue
      const client = this.#clientOf(threadId, said[0]?.resourceId)
      const added = await client.add_messages({
        session_id: threadId,
        messages: said.map((message) => ({
          role: message.role as "user" | "assistant",
          content: textOf(message),
          message_id: message.id,
          event_time: new Date(message.createdAt ?? Date.now()).toISOString(),
        })),
      })
      saved.push(...said.map((message, index) => ({ ...message, id: added.messages[index]?.id ?? message.id })))
    }
    return { messages: saved }
  }

  async recall(given: Given<"recall">): ReturnType<MastraMemory["recall"]> {
    const { threadId, page = 0, perPage = 40, orderBy } = given
    const threads = Array.isArray(threadId) ? threadId : [threadId]
    const all = (await Promise.all(threads.map((one) => this.#all(one, given.resourceId)))).flat()
    if (orderBy?.direction === "DESC") all.reverse()
    const first = perPage === false ? 0 : page * perPage
    const messages = perPage === false ? all : all.slice(first, first + perPage)
    return { messages, total: all.length, page, perPage, hasMore: first + messages.length < all.length }
  }

  async deleteMessages(given: Given<"deleteMessages">): Promise<void> {
    for (const one of given) {
      await orNull(this.#options.client.forget({ item_id: typeof one === "string" ? one : one.id, reason: "asked by Mastra" }))
    }
  }

  async getWorkingMemory({ threadId, resourceId }: Given<"getWorkingMemory">): Promise<string | null> {
    const client = this.#clientOf(threadId, resourceId)
    const entry = await orNull(client.get_entry({ namespace: WORKING_MEMORY, key: threadId, scope: "user" }))
    return entry ? String(entry.value["text"]) : null
  }

  async getWorkingMemoryTemplate(): Promise<null> {
    return null
  }

  async updateWorkingMemory({ threadId, resourceId, workingMemory }: Given<"updateWorkingMemory">): Promise<void> {
    const client = this.#clientOf(threadId, resourceId)
    const entry = { namespace: WORKING_MEMORY, key: threadId, value: { text: workingMemory } }
    await client.put_entry({ ...entry, scope: "user", index: false })
  }

  async __experimental_updateWorkingMemoryVNext(given: Given<"updateWorkingMemory">): Promise<{ success: boolean; reason: string }> {
    await this.updateWorkingMemory(given)
    return { success: true, reason: "replaced" }
  }

  async cloneThread(): Promise<never> {
    throw new RecordariError("a session cannot be copied: open another one, and recall finds what this one said", {
      code: "invalid_input",
      status: 422,
    })
  }

  async #safely<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      this.#options.onError?.(error)
      return undefined
    }
  }

  /** The client for the user of a thread; Mastra does not always say who that is. */
  #clientOf(threadId: string, resourceId?: string): Client {
    if (resourceId) {
      this.#resources.delete(threadId)
      this.#resources.set(threadId, resourceId)
      if (this.#resources.size > MOST_KNOWN) this.#resources.delete(this.#resources.keys().next().value as string)
    }
    const user = this.#resources.get(threadId)
    return this.#options.client.actingAs({ session: threadId, ...(user && { user }) })
  }

  async #last(threadId: string, most: number): Promise<DBMessage[]> {
    if (most <= 0) return []
    const session = await orNull(this.#clientOf(threadId).get_session({ session_id: threadId }))
    return session?.messages ? this.#all(threadId, undefined, Math.max(0, session.messages - most)) : []
  }

  async #all(threadId: string, resourceId?: string, after = 0): Promise<DBMessage[]> {
    const client = this.#clientOf(threadId, resourceId)
    const found: Message[] = []
    for (let cursor: string | null = null, isFirst = true; isFirst || cursor; isFirst = false) {
      const page: MessagePage | null = await orNull(
        client.list_messages({ session_id: threadId, limit: PAGE, ...(cursor ? { cursor } : after ? { after } : {}) }),
      )
      found.push(...(page?.items ?? []))
      cursor = page?.next_cursor ?? null
    }
    const user = this.#resources.get(threadId)
    return found
      .filter((message) => message.role === "user" || message.role === "assistant")
      .map((message) => ({
        id: message.item_id,
        role: message.role as "user" | "assistant",
        createdAt: new Date(message.event_time),
        threadId,
        ...(user && { resourceId: user }),
        content: { format: 2, parts: [{ type: "text", text: message.content }], content: message.content },
      }))
  }

  #threadOf(session: Session, threadId: string): Thread {
    const { title, ...metadata } = session.metadata
    return {
      id: threadId,
      title: typeof title === "string" ? title : "",
      resourceId: session.user_id ?? this.#resources.get(threadId) ?? threadId,
      createdAt: new Date(session.opened_at),
      updatedAt: new Date(session.active_at),
      metadata,
    }
  }
}

interface Place {
  threadId: string
  resourceId?: string
  readOnly: boolean
}

/** The thread and the user of a request. */
function placeOf(
  context: { get(name: never): unknown } | undefined,
  messages: { serialize(): { memoryInfo?: { threadId: string; resourceId?: string } | null } },
): Place | undefined {
  const memory = context?.get("MastraMemory" as never) as
    | { thread?: { id: string }; resourceId?: string; memoryConfig?: { readOnly?: boolean } }
    | undefined
  const info = messages.serialize().memoryInfo
  const threadId = memory?.thread?.id ?? info?.threadId
  const resourceId = memory?.resourceId ?? info?.resourceId
  return threadId ? { threadId, ...(resourceId && { resourceId }), readOnly: memory?.memoryConfig?.readOnly === true } : undefined
}

function textOf(message: DBMessage): string {
  const parts = message.content.parts ?? []
  const text = parts.map((part) => (part.type === "text" ? part.text : "")).filter(Boolean)
  return (text.length ? text.join("\n") : (message.content.content ?? "")).trim()
}

function now(): { createdAt: Date; updatedAt: Date } {
  const moment = new Date()
  return { createdAt: moment, updatedAt: moment }
}

function byThread(messages: DBMessage[]): Map<string, DBMessage[]> {
  const groups = new Map<string, DBMessage[]>()
  for (const message of messages) {
    const threadId = message.threadId ?? ""
    groups.set(threadId, [...(groups.get(threadId) ?? []), message])
  }
  return groups
}

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof RecordariError && error.code === "not_found") return null
    throw error
  }
}
