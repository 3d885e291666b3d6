// The client without anything of Node: `node`, `deno run` and `bun run` all run this against a real server.
import { Client, RecordariError } from "../dist/index.js"

const [url, key] = globalThis.Deno ? globalThis.Deno.args : globalThis.process.argv.slice(2)
const admin = new Client({ url, key })
const client = admin.actingAs({ user: "zoé", session: "everywhere" })
await client.remember_fact({ content: "Zoé's sloop is called Kittiwake." })
const { items } = await client.recall({ query: "What is Zoé's sloop called?" })
if (!items[0].content.includes("Kittiwake")) throw new Error("it is not recalled")
for await (const event of admin.follow_events({ after: 0 })) {
  if (!event.type) throw new Error("an event without a type")
  break
}
const refused = await client.recall({ query: "" }).catch((error) => error)
if (!(refused instanceof RecordariError) || refused.field !== "query") throw refused
let lines = 0
for await (const line of admin.export({ user_id: "zoé" })) lines += line.includes("Kittiwake") ? 1 : 0
if (lines === 0) throw new Error("nothing is exported")
console.log("all right")
