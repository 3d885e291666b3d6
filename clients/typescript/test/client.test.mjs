// The client against a real server; `make test-typescript` starts one and names it in the environment.
import assert from "node:assert/strict"
import { createServer } from "node:http"
import { test } from "node:test"

import { Client, RecordariError } from "recordari"

const { RECORDARI_URL: url, RECORDARI_KEY: key } = process.env
const admin = new Client({ url, key })
const ana = admin.actingAs({ user: "ana", agent: "helper", session: "chat ü 17" })

test("what is remembered is recalled, under the names of the Python client", async () => {
  const remembered = await ana.remember_fact({ content: "Ana drinks Darjeeling in the morning." })
  assert.equal(remembered.was_new, true)
  const answer = await ana.recall({ query: "What does Ana drink?", top_k: 3 })
  assert.equal(answer.items[0].content, "Ana drinks Darjeeling in the morning.")
  const bert = await admin.actingAs({ user: "bert" }).recall({ query: "What does Ana drink?" })
  assert.deepEqual(bert.items, [])
  await ana.add_messages({ messages: [{ content: "The launch moves to 14 May." }] })
  const page = await ana.list_messages()
  assert.equal(page.items[0].content, "The launch moves to 14 May.")
  await ana.set_state({ key: "plan", value: { steps: [1, 2] } })
  assert.deepEqual((await ana.get_state({ key: "plan" })).value, { steps: [1, 2] })
  const context = await ana.get_context({ question: "When is the launch?", budget: 2000 })
  assert.match(context.text, /14 May/)
  assert.equal((await ana.list_items({ kind: ["fact"], limit: 5 })).items.length, 1)
  const gone = await ana.forget({ item_id: remembered.id })
  assert.ok(gone)
  assert.deepEqual((await ana.recall({ query: "Darjeeling", source_kinds: ["fact"] })).items, [])
})

test("a refusal is an error with its code, its field and what to do", async () => {
  await assert.rejects(ana.recall({ query: "" }), (error) => {
    assert.ok(error instanceof RecordariError)
    assert.deepEqual([error.code, error.status, error.field], ["invalid_input", 422, "query"])
    return true
  })
  await assert.rejects(new Client({ url, key: "rcd_wrong" }).whoami(), { code: "unauthenticated", status: 401 })
  await assert.rejects(admin.list_messages(), { code: "invalid_input", field: "session_id" })
  await assert.rejects(new Client({ url: "http://127.0.0.1:9", key, retries: 0 }).whoami(), { code: "provider_error" })
})

test("the feed brings changes while they happen", async () => {
  const controller = new AbortController()
  const feed = admin.follow_events({ after: 0, signal: controller.signal })
  await ana.remember_fact({ content: "Ana plays the cello." })
  const { value } = await feed.next()
  assert.ok(value.type && Number.isInteger(value.event_id ?? value.position ?? value.id))
  controller.abort()
})

test("an export comes line by line, and is imported again", async () => {
  const lines = []
  for await (const line of admin.export()) lines.push(JSON.parse(line))
  assert.ok(lines.length > 3 && lines[0].format, "a header, then rows")
  assert.ok(JSON.stringify(lines).includes("cello"))
  const own = []
  for await (const line of admin.export({ user_id: "nobody" })) own.push(line)
  assert.ok(own.length < lines.length)
  const again = await admin.import_export(admin.export())
  assert.deepEqual([Object.values(again.written).filter(Boolean), again.known_items > 0], [[], true])
  await assert.rejects(admin.import_export(["{\"no\": \"header\"}"]), { code: "invalid_input" })
  await assert.rejects(async () => {
    for await (const line of new Client({ url, key: "rcd_wrong" }).export()) assert.fail(line)
  }, { code: "unauthenticated" })
})

test("a file is added, found with its citation, and read back", async () => {
  const text = "# Returns\n\nParcels go back within thirty days.\n"
  const added = await admin.add_document({ name: "returns.md", data: text, title: "Returns", metadata: { team: "shop" } })
  assert.deepEqual([added.was_new, added.document.metadata.team], [true, "shop"])
  const { items } = await admin.search_knowledge({ query: "How long may a parcel go back?" })
  assert.equal(items[0].citation.document, "returns.md")
  const bytes = new TextEncoder().encode(text)
  assert.equal((await admin.add_document({ name: "returns.md", data: bytes })).was_new, false)
  const original = await admin.read_original({ document_id: added.document.document_id })
  assert.deepEqual(new Uint8Array(original), bytes)
})

test("what is safe is sent again, under one idempotency key", async () => {
  const seen = []
  const server = createServer((request, response) => {
    seen.push([request.method, request.headers["idempotency-key"]])
    response.writeHead(seen.length % 2 ? 503 : 200, { "content-type": "application/json" })
    response.end(JSON.stringify(seen.length % 2 ? { code: "overloaded", detail: "busy" } : { ok: true }))
  })
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
  const client = new Client({ url: `http://127.0.0.1:${server.address().port}`, key })
  assert.deepEqual(await client.remember_fact({ content: "x" }), { ok: true })
  assert.deepEqual(await client.whoami(), { ok: true })
  server.close()
  assert.equal(seen.length, 4)
  assert.ok(seen[0][1] && seen[0][1] === seen[1][1], "both tries have the same key")
  assert.equal(seen[2][1], undefined)
})
