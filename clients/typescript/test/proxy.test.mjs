// The official SDKs of both vendors through `recordari proxy`, with an imitation of their models.
import assert from "node:assert/strict"
import { test } from "node:test"

import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"

const { PROXY_URL, PROXY_KEY: apiKey, MODEL_URL } = process.env
const headers = (session) => ({ defaultHeaders: { "Recordari-Session": session }, maxRetries: 0 })
const openai = (session) => new OpenAI({ baseURL: `${PROXY_URL}/v1`, apiKey, ...headers(session) })
const anthropic = (session) => new Anthropic({ baseURL: PROXY_URL, apiKey, ...headers(session) })
const lastAsked = async () => (await fetch(`${MODEL_URL}/last`)).json()
const NOTED = "All right, noted."

test("chat completions, whole and streamed", async () => {
  const messages = [{ role: "user", content: "Ana's bicycle is painted in vermilion." }]
  const whole = await openai("js one").chat.completions.create({ model: "m", messages })
  assert.equal(whole.choices[0].message.content, NOTED)
  let text = ""
  for await (const chunk of await openai("js two").chat.completions.create({ model: "m", messages, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? ""
  }
  assert.equal(text, NOTED)
})

test("responses, whole and streamed", async () => {
  const whole = await openai("js three").responses.create({ model: "m", input: "Which colour has Ana's bicycle?" })
  assert.equal(whole.output_text, NOTED)
  assert.match((await lastAsked()).instructions, /vermilion/)
  let text = ""
  for await (const event of await openai("js four").responses.create({ model: "m", input: "Hello", stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta
  }
  assert.equal(text, NOTED)
})

test("messages, whole and streamed", async () => {
  const given = { model: "m", max_tokens: 50, messages: [{ role: "user", content: "Which colour has Ana's bicycle?" }] }
  const whole = await anthropic("js five").messages.create(given)
  assert.equal(whole.content[0].text, NOTED)
  assert.match((await lastAsked()).system.at(-1).text, /vermilion/)
  assert.equal(await anthropic("js six").messages.stream(given).finalText(), NOTED)
})
