// The plugin for OpenClaw: it fills the slot `memory`. Groups, subagents and scheduled runs have no part in it.
const OTHERS = /:(group|channel|thread|subagent|cron|hook|acp|heartbeat)(:|$)/
const TOOLS = { exec: "Bash", web_fetch: "WebFetch", web_search: "WebSearch" }
const KEPT_TOOLS = /^(Bash|WebFetch|WebSearch|edit|write|apply_patch|recordari_.*)$/

const isPersonal = (context) =>
  Boolean(context.sessionId) &&
  !OTHERS.test(context.sessionKey ?? "") &&
  (context.trigger ?? "user") === "user" &&
  (context.inputProvenance?.kind ?? "external_user") === "external_user"
const given = (context, more) => ({
  session_id: context.sessionId,
  ...(context.workspaceDir && { cwd: context.workspaceDir }),
  ...more,
})
const textOf = (content) =>
  typeof content === "string"
    ? content
    : (content ?? [])
        .filter((part) => part.type === "text")
        .map((part) => part.text)
        .join("\n")

export default {
  id: "recordari",
  name: "Recordari",
  description: "Long-term memory on this machine.",
  register(api) {
    const runs = new Map() // by session: the run whose prompt was kept; a prompt may be built again
    const folders = new Map() // by session: its workspace, which the calls of tools do not name
    api.registerMemoryCapability({
      promptBuilder: () => [
        "## Long-term memory",
        "What Recordari knows is shown as data. Ask its tool `recall` before you say that you do not know.",
        "",
      ],
    })
    api.on("before_prompt_build", async (event, context) => {
      if (!isPersonal(context)) return
      const session = context.sessionId
      const isAgain = context.runId !== undefined && runs.get(session) === context.runId
      runs.set(session, context.runId)
      folders.set(session, context.workspaceDir)
      const prompt = event.currentUserMessage ?? event.prompt
      const shown = isAgain ? contexts.get(session) : await prompted(session, given(context, { prompt }))
      return shown ? { appendSystemContext: shown } : undefined
    })
    api.on("after_tool_call", async (event, context) => {
      const tool = TOOLS[event.toolName] ?? event.toolName
      if (!folders.has(context.sessionId) || !KEPT_TOOLS.test(tool)) return
      const result = event.result?.content ?? event.result
      const call = { tool_name: tool, tool_input: event.params ?? {}, tool_response: result }
      await hook("tool", given({ workspaceDir: folders.get(context.sessionId), ...context }, call))
    })
    api.on("agent_end", async (event, context) => {
      const last = (event.messages ?? []).filter((message) => message.role === "assistant").at(-1)
      if (event.success && last && isPersonal(context)) await hook("stop", given(context, { text: textOf(last.content) }))
    })
    api.on("before_compaction", async (_, context) => {
      if (!isPersonal(context)) return
      contexts.delete(context.sessionId)
      await hook("compact", given(context, {}))
    })
    api.on("session_end", async (event, context) => {
      if (!folders.has(event.sessionId) || ["shutdown", "restart"].includes(event.reason)) return
      const ended = given({ workspaceDir: folders.get(event.sessionId), ...context, sessionId: event.sessionId }, {})
      for (const kept of [contexts, runs, folders]) kept.delete(event.sessionId)
      await hook("end", ended)
    })
  },
}
