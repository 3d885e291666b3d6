"""An agent of LiveKit over Recordari, in the framework's own session with a local model."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("livekit.agents", reason="tested by `make test-livekit`")

from livekit.agents import AgentSession, function_tool, llm

from recordari.client import Client
from recordari.integrations.base import Verbs
from recordari.integrations.livekit import RecordariAgent

pytestmark = pytest.mark.filterwarnings("default")


class Echo(llm.LLM):  # type: ignore[misc,unused-ignore]
    """A model that notes what it is shown, calls a tool where it is asked to, and answers with one sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def chat(self, *, chat_ctx: llm.ChatContext, tools: Any = None, conn_options: Any = None, **more: Any) -> Any:
        self.shown.append("\n".join(f"{one.role}: {one.text_content}" for one in chat_ctx.messages()))
        return Answer(self, chat_ctx=chat_ctx, tools=tools or [], conn_options=conn_options)


class Answer(llm.LLMStream):  # type: ignore[misc,unused-ignore]
    async def _run(self) -> None:
        delta = llm.ChoiceDelta(role="assistant", content="All right.")
        last = self._chat_ctx.items[-1]
        if self._tools and last.type == "message" and "clock" in (last.text_content or ""):
            call = llm.FunctionToolCall(name="clock", arguments="{}", call_id="call_1")
            delta = llm.ChoiceDelta(role="assistant", tool_calls=[call])
        self._event_ch.send_nowait(llm.ChatChunk(id="1", delta=delta))


async def talk(agent: RecordariAgent, *said: str) -> list[str]:
    """Say something in a session of its own, and return what the model was shown."""
    model = Echo()
    async with AgentSession(llm=model) as session:
        await session.start(agent)
        for text in said:
            await session.run(user_input=text)
    return model.shown


async def test_an_agent_remembers_in_a_later_session_what_was_said_in_an_earlier_one(verbs: Verbs) -> None:
    def agent(user: str, session: str) -> RecordariAgent:
        return RecordariAgent(
            verbs, user=user, agent="phone", session_id=session, seconds=240, instructions="Be brief."
        )

    first = await talk(agent("ana", "call 1"), "My favourite tea is oolong", "And I take no sugar")
    assert "[begin memory " not in first[0]
    ana = verbs.acting_as(user="ana", agent="phone", session="call 1")
    kept = [(one.role, one.content) for one in await ana.list_messages("call 1")]
    assert kept == [
        ("user", "My favourite tea is oolong"),
        ("assistant", "All right."),
        ("user", "And I take no sugar"),
        ("assistant", "All right."),
    ], "what was shown is not kept"
    (later,) = await talk(agent("ana", "call 2"), "Which tea is my favourite?")
    assert "My favourite tea is oolong" in later and "[begin memory " in later
    assert later.rstrip().endswith("user: Which tea is my favourite?"), "the question stays last"
    (others,) = await talk(agent("bo", "call 3"), "Which tea is my favourite?")
    assert "oolong" not in others


async def test_after_a_tool_the_model_sees_the_same_memories(verbs: Verbs) -> None:
    class Clock(RecordariAgent):
        @function_tool  # type: ignore[untyped-decorator,unused-ignore]
        async def clock(self) -> str:
            """Say what time it is."""
            return "noon"

    await verbs.acting_as(user="ana").remember_fact("Ana's clock in the hall is five minutes fast")
    agent = Clock(verbs, user="ana", agent="phone", seconds=240, instructions="Be brief.")
    before, after = await talk(agent, "What does the clock say?")
    assert "five minutes fast" in before and "five minutes fast" in after


async def test_the_agent_answers_without_memory_when_it_is_away() -> None:
    async with Client("http://127.0.0.1:9", key="rcd_none", retries=0) as away:
        (shown,) = await talk(RecordariAgent(away, user="ana", instructions="Be brief."), "Good morning")
    assert "Good morning" in shown and "[begin memory " not in shown
