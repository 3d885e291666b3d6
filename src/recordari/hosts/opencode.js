// The plugin for OpenCode.
const textOf = (parts) =>
  (parts ?? [])
    .filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
    .map((part) => part.text)
    .join("\n")

export const Recordari = async ({ client, directory }) => {
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
      await prompted(input.sessionID, given(input.sessionID, { prompt: textOf(output.parts) }))
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
