// Recordari's plugin for OpenCode, written by `recordari install opencode`. It calls the hook program and never throws.
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

const textOf = (parts) =>
  (parts ?? [])
    .filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
    .map((part) => part.text)
    .join("\n")

export const Recordari = async ({ client, directory }) => {
  const contexts = new Map() // by session: what its model is shown, the same for the whole session
  const roots = new Map() // by session: whether it is a conversation with a person, not of a subagent
  const given = (sessionID, more) => ({ session_id: sessionID, cwd: directory, ...more })
  const isRoot = async (sessionID) => {
    if (!roots.has(sessionID)) {
      const answer = await client.session.get({ path: { id: sessionID } }).catch(() => undefined)
      roots.set(sessionID, !answer?.data?.parentID)
    }
    return roots.get(sessionID)
  }
  return {
    "chat.message": async (input, output) => {
      if (!(await isRoot(input.sessionID))) return
      const answer = await hook("prompt", given(input.sessionID, { prompt: textOf(output.parts) }))
      if (answer.context) contexts.set(input.sessionID, answer.context)
    },
    "experimental.chat.system.transform": async (input, output) => {
      const context = contexts.get(input.sessionID)
      if (context) output.system.push(context)
    },
    "tool.execute.after": async (input, output) => {
      if (!(await isRoot(input.sessionID))) return
      const tool = { bash: "Bash", webfetch: "WebFetch", websearch: "WebSearch" }[input.tool] ?? input.tool
      if (!/^(Bash|WebFetch|WebSearch|edit|write|patch|apply_patch|recordari_.*)$/.test(tool)) return
      const call = { tool_name: tool, tool_input: input.args ?? {}, tool_response: output.output }
      await hook("tool", given(input.sessionID, call))
    },
    "experimental.session.compacting": async (input) => {
      contexts.delete(input.sessionID)
      await hook("compact", given(input.sessionID, {}))
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const sessionID = event.properties.sessionID
      if (!(await isRoot(sessionID))) return
      const answer = await client.session.messages({ path: { id: sessionID } }).catch(() => undefined)
      const last = (answer?.data ?? []).filter((message) => message.info.role === "assistant").at(-1)
      if (last) await hook("stop", given(sessionID, { text: textOf(last.parts) }))
    },
  }
}
