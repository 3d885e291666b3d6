"""Plan what an agent sees: the session, facts and the map of documents in one context, within a budget of tokens.

    python examples/07_plan_a_context.py

The trace says what each section considered, kept and left out, and why.
"""

import asyncio

from recordari import AgentDefinition, Memory, NewMessage

RULES = """# Travel

## Trains
Book second class. A journey of more than four hours may be first class.
"""


async def main() -> None:
    async with Memory.open(user="ana", agent="helper") as memory:
        await memory.save_agent("helper", AgentDefinition(core="You help Ana with her work. Be brief."))
        await memory.add_source("handbook", description="Rules of work: leave, travel, pay")
        await memory.add_document("travel.md", text=RULES, source="handbook")
        await memory.remember_fact("Ana prefers trains to planes")
        await memory.remember_fact("Ana is allergic to peanuts")

        today = memory.acting_as(session="tuesday")
        await today.add_messages([NewMessage(content="I must be in Lyon on Friday."), NewMessage(content="With Ben.")])
        question = "How shall we travel to Lyon?"

        # One call returns the text to put before the conversation; `left` is free for the results of tools.
        context = await today.get_context(question, budget=1_000, explain=True)
        print(context.text)
        print(f"{context.tokens} tokens of {context.budget}, {context.left} left")

        # The trace explains the choice.
        assert context.trace is not None
        for section in context.trace["sections"]:
            print(f"{section['name']}: {len(section['kept'])} of {section['considered']}, {section['tokens']} tokens")
        print("not here:", context.trace["left_out"])

        # The map names documents; the agent looks them up when it needs them.
        rule = (await today.search_knowledge("first class by train?", top_k=1)).items[0]
        assert rule.citation is not None
        print("looked up:", rule.content.splitlines()[-1], "in", rule.citation.document)

        # A smaller budget drops the least important sections, and never cuts a sentence.
        small = await today.get_context(question, budget=300)
        print("with 300 tokens:", [str(section.name) for section in small.sections])
        # For a chat model: messages with roles instead of one text.
        chat = await today.get_context(question, render="messages")
        print("roles:", [str(message.role) for message in chat.messages or ()])


asyncio.run(main())
