"""The files of Claude's memory tool kept in Recordari (pip install 'recordari[anthropic]').

Run it: python examples/06_claude_memory_tool.py. The commands are those that Claude sends; with a key, give the tool to
`AsyncAnthropic().beta.messages.tool_runner(…, tools=[tool])` instead.
"""

from __future__ import annotations

import asyncio

from anthropic.lib.tools import ToolError

from recordari import Memory
from recordari.integrations.anthropic import AsyncRecordariMemoryTool

COMMANDS = [
    {"command": "create", "path": "/memories/ana.md", "file_text": "Ana drinks tea\n"},
    {"command": "str_replace", "path": "/memories/ana.md", "old_str": "tea", "new_str": "oolong"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/../etc/passwd"},
]


async def main() -> None:
    async with Memory.open() as memory:
        tool = AsyncRecordariMemoryTool(memory, user="ana")
        for command in COMMANDS:
            try:
                print(await tool.call(command))
            except ToolError as error:  # Claude gets it as the tool's error
                print("refused:", error.content)
        answer = await memory.acting_as(user="ana").recall("What does Ana drink?")
        print("recalled:", answer.items[0].content)


if __name__ == "__main__":
    asyncio.run(main())
