// The memory of a real Mastra agent, with an imitation of a model.
import assert from "node:assert/strict"
import { test } from "node:test"

import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { Agent } from "@mastra/core/agent"
import { Client } from "recordari"
import { memoryTools } from "recordari/ai-sdk"
import { RecordariMemory } from "recordari/mastra"

const { RECORDARI_URL: url, RECORDARI_KEY: key, MODEL_URL } = process.env
const provider = createOpenAICompatible({ name: "local", baseURL: `${MODEL_URL}/v1`, apiKey: "local" })
const client = new Client({ url, key, agent: "sailor" })
const agent = (memory, model = "small", tools = {}) =>
  new Agent({ id: "sailor", name: "sailor", instructions: "Be brief.", model: provider(model), memory, tools })
const lastAsked = async () => JSON.stringify((await (await fetch(`${MODEL_URL}/last`)).json()).messages)

test("a fact said in one thread is in the next one's context, and a thread has its history", async () => {
  const memory = new RecordariMemory({ client })
  const place = { resource: "dora", thread: "mastra one" }
  const first = await agent(memory).generate("Dora's dinghy is called Pelican.", { memory: place })
  assert.equal(first.text, "All right, noted.")
  await agent(memory).generate("It is nine feet long.", { memory: place })
  const again = await lastAsked()
  assert.match(again, /called Pelican/)
  assert.match(again, /"role":"assistant","content":(\[\{"type":"text","text":)?"All right, noted/)
  const stream = await agent(new RecordariMemory({ client })).stream("What is Dora's dinghy called?", {
    memory: { resource: "dora", thread: "mastra two" },
  })
  assert.equal(await stream.text, "All right, noted.")
  assert.match(await lastAsked(), /Pelican/)
  const kept = await client.actingAs({ user: "dora", session: "mastra two" }).list_messages()
  assert.deepEqual(
    kept.items.map((message) => [message.role, message.content]),
    [
      ["user", "What is Dora's dinghy called?"],
      ["assistant", "All right, noted."],
    ],
    "what was shown is not kept",
  )
  await agent(new RecordariMemory({ client })).generate("What is the dinghy called?", {
    memory: { resource: "emil", thread: "mastra three" },
  })
  assert.doesNotMatch(await lastAsked(), /Pelican/, "another user's memory is another memory")
})

test("threads and messages are listed, and removed for good", async () => {
  const memory = new RecordariMemory({ client })
  await memory.createThread({ threadId: "t1", resourceId: "finn", title: "Rigging", metadata: { topic: "boats" } })
  const message = (id, role, text) => ({
    id,
    role,
    createdAt: new Date(),
    threadId: "t1",
    resourceId: "finn",
    content: { format: 2, parts: [{ type: "text", text }] },
  })
  await memory.saveMessages({ messages: [message("a", "user", "The mast is spruce."), message("b", "assistant", "Fine.")] })
  await memory.saveMessages({ messages: [message("a", "user", "The mast is spruce.")] })
  const { messages, total } = await memory.recall({ threadId: "t1", resourceId: "finn" })
  assert.deepEqual([total, messages[0].content.parts[0].text], [2, "The mast is spruce."])
  assert.equal((await memory.getThreadById({ threadId: "t1" })).title, "Rigging")
  assert.equal(await memory.getThreadById({ threadId: "no such thread" }), null)
  const { threads } = await memory.listThreads({ filter: { resourceId: "finn", metadata: { topic: "boats" } } })
  assert.deepEqual(threads.map((thread) => [thread.id, thread.resourceId]), [["t1", "finn"]])
  await memory.updateWorkingMemory({ threadId: "t1", resourceId: "finn", workingMemory: "# Finn\n- sails" })
  assert.equal(await memory.getWorkingMemory({ threadId: "t1", resourceId: "finn" }), "# Finn\n- sails")
  await memory.deleteThread("t1")
  assert.equal((await memory.recall({ threadId: "t1", resourceId: "finn" })).messages.filter((one) => /spruce/.test(JSON.stringify(one))).length, 0)
  const found = await client.actingAs({ user: "finn" }).recall({ query: "What is the mast made of?" })
  assert.ok(!JSON.stringify(found.items).includes("spruce"))
})

test("the agent calls the tools, and works without a memory", async () => {
  const acting = client.actingAs({ user: "gil" })
  await agent(undefined, "calls-a-tool", memoryTools(acting)).generate("Remember that the keel is lead.", { maxSteps: 2 })
  assert.match(JSON.stringify((await acting.recall({ query: "What is the keel made of?" })).items), /keel is lead/)
  const errors = []
  const away = new Client({ url: "http://127.0.0.1:9", key, retries: 0 })
  const memory = new RecordariMemory({ client: away, onError: (error) => errors.push(error.code) })
  const answer = await agent(memory).generate("Hello", { memory: { resource: "gil", thread: "away" } })
  assert.equal(answer.text, "All right, noted.")
  assert.ok(errors.length >= 2 && errors.every((code) => code === "provider_error"))
})
