// What the pages show, checked by the compiler with the types of the real packages; it is not run.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { Agent } from "@mastra/core/agent"
import { generateText, streamText, wrapLanguageModel } from "ai"
import { Client, RecordariError } from "recordari"
import { memoryMiddleware, memoryTools } from "recordari/ai-sdk"
import { RecordariMemory } from "recordari/mastra"

const memory = new Client({ url: "http://127.0.0.1:8765", key: "rcd_…", user: "ana", session: "chat-17" })
const yours = createOpenAICompatible({ name: "local", baseURL: "http://127.0.0.1:9/v1", apiKey: "local" })("small")

export async function client(): Promise<string | undefined> {
  await memory.remember_fact({ content: "Ana prefers tea." })
  const { items } = await memory.recall({ query: "What does Ana drink?", top_k: 3 })
  for await (const event of memory.follow_events({ after: 0 })) console.log(event.type)
  return items[0]?.content
}

export async function aiSdk(): Promise<string> {
  const model = wrapLanguageModel({ model: yours, middleware: memoryMiddleware(memory, { onError: console.error }) })
  const { text } = await generateText({ model, tools: memoryTools(memory), prompt: "What do I drink?" })
  return text + (await streamText({ model, tools: { ...memoryTools(memory) }, prompt: text }).text)
}

export async function mastra(): Promise<string> {
  const remembering = new RecordariMemory({ client: memory })
  const agent = new Agent({ id: "helper", name: "helper", instructions: "…", model: yours, memory: remembering, tools: memoryTools(memory) })
  try {
    return (await agent.generate("What do I drink?", { memory: { resource: "ana", thread: "chat-17" } })).text
  } catch (error) {
    if (error instanceof RecordariError) console.error(error.code, error.status, error.field, error.requestId)
    throw error
  }
}
