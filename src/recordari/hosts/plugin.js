// Written by `recordari install`: calls the hook program, and never throws.
import { spawn } from "node:child_process"

const COMMAND = __COMMAND__
const MILLISECONDS = 5000

function hook(event, given) {
  return new Promise((resolve) => {
    try {
      const child = spawn(COMMAND[0], [...COMMAND.slice(1), event], { stdio: ["pipe", "pipe", "ignore"] })
      const timer = setTimeout(() => child.kill(), MILLISECONDS)
      let out = ""
      child.stdout.on("data", (part) => (out += part))
      child.on("error", () => resolve({}))
      child.on("close", () => {
        clearTimeout(timer)
        try {
          resolve(JSON.parse(out))
        } catch {
          resolve({})
        }
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(given))
    } catch {
      resolve({})
    }
  })
}

const contexts = new Map() // by session: what its model is shown, the same until there is something else to show

// Keep a prompt. The first one of a session in this process also asks for what the session begins with.
async function prompted(session, given) {
  const begins = contexts.has(session) ? {} : await hook("start", given)
  const answer = await hook("prompt", given)
  const context = answer.context ?? begins.context ?? contexts.get(session)
  contexts.set(session, context)
  return context
}
