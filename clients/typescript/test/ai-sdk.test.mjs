// The adapter with the real AI SDK and an imitation of a model.
import assert from "node:assert/strict"
import { test } from "node:test"

import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { generateText, stepCountIs, streamText, wrapLanguageModel } from "ai"
import { Client } from "recordari"
import { memoryMiddleware, memoryTools } from "recordari/ai-sdk"

const { RECORDARI_URL: url, RECORDARI_KEY: key, MODEL_URL } = process.env
const provider = createOpenAICompatible({ name: "local", baseURL: `${MODEL_URL}/v1`, apiKey: "local" })
const client = new Client({ url, key, user: "cleo" })
const session = (name, more) =>
  wrapLanguageModel({ model: provider("small"), middleware: memoryMiddleware(client.actingAs({ session: name }), more) })
const lastAsked = async () => (await fetch(`${MODEL_URL}/last`)).json()

test("what is said in one session is shown in the next, and kept once", async () => {
  const first = await generateText({ model: session("one"), prompt: "Cleo's boat is called Halcyon." })
  assert.equal(first.text, "All right, noted.")
  const second = streamText({ model: session("two"), system: "Be brief.", prompt: "What is Cleo's boat called?" })
  let text = ""
  for await (const part of second.textStream) text += part
  assert.equal(text, "All right, noted.")
  const asked = await lastAsked()
  assert.match(JSON.stringify(asked.messages), /Halcyon/)
  const { items } = await client.actingAs({ session: "two" }).list_messages()
  assert.deepEqual(
    items.map((message) => [message.role, message.content]),
    [
      ["user", "What is Cleo's boat called?"],
      ["assistant", "All right, noted."],
    ],
  )
})

test("sentences of memory that the answer repeats are not kept", async () => {
  await client.remember_fact({ content: "The mast of Halcyon was replaced in the spring of 2024." })
  const middleware = memoryMiddleware(client.actingAs({ session: "four" }))
  const model = wrapLanguageModel({ model: provider("repeats"), middleware })
  const { text } = await generateText({ model, prompt: "When was the mast of Halcyon replaced?" })
  assert.match(text, /spring of 2024/)
  const { items } = await client.actingAs({ session: "four" }).list_messages()
  assert.equal(items.at(-1).content, "You told me: … Shall I go on?")
})

test("a memory that is away does not stop the model", async () => {
  const errors = []
  const away = new Client({ url: "http://127.0.0.1:9", key, retries: 0, session: "x" })
  const middleware = memoryMiddleware(away, { onError: (error) => errors.push(error.code) })
  const model = wrapLanguageModel({ model: provider("small"), middleware })
  assert.equal((await generateText({ model, prompt: "Hello" })).text, "All right, noted.")
  assert.deepEqual(errors, ["provider_error", "provider_error"])
})

test("the model calls the tools", async () => {
  const tools = memoryTools(client.actingAs({ session: "three" }))
  const result = await generateText({
    model: provider("calls-a-tool"),
    tools,
    stopWhen: stepCountIs(2),
    prompt: "Remember that the mast is made of spruce.",
  })
  assert.equal(result.steps[0].toolCalls[0].toolName, "remember_fact")
  assert.equal(result.steps[0].toolResults[0].output.was_new, true)
  const found = await tools.recall.execute({ query: "What is the mast made of?" })
  assert.match(found[0].content, /spruce/)
})
