"""A conversation of the OpenAI Agents SDK kept in Recordari (pip install 'recordari[openai-agents]').

Run it: python examples/05_openai_agents_session.py. A small class speaks for the model, so that nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from recordari import Memory
from recordari.integrations.openai_agents import RecordariSession


class Counting(Model):
    """Says how many messages it got."""

    async def get_response(self, system_instructions: Any, input: Any, *more: Any, **options: Any) -> ModelResponse:
        messages = [item for item in input if item.get("role") == "user"]
        text = ResponseOutputText(text=f"You told me {len(messages)} things", type="output_text", annotations=[])
        message = ResponseOutputMessage(id="msg", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def main() -> None:
    set_tracing_disabled(True)
    agent = Agent(name="support", model=Counting())
    async with Memory.open() as memory:
        session = RecordariSession("chat-17", memory, user="ana", agent="support")
        await Runner.run(agent, "My order number is QX-7781", session=session)
        result = await Runner.run(agent, "Where is it?", session=session)
        print(result.final_output)
        here = memory.acting_as(user="ana", session="chat-17")
        print("recalled:", (await here.recall("order number")).items[0].content)


if __name__ == "__main__":
    asyncio.run(main())
