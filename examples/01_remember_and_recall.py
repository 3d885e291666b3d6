"""Remember messages and facts, and recall them: no server, no key, no network.

    python examples/01_remember_and_recall.py

The database starts by itself below RECORDARI_HOME and stops at the end.
"""

import asyncio

from recordari import Memory


async def main() -> None:
    async with Memory.open(user="ana", agent="helper", session="monday") as memory:
        # A message belongs to its session.
        await memory.remember("The launch moves to 14 May, the supplier is late.", speaker="Ana")
        await memory.remember("Noted. I will tell the printers.", speaker="helper")
        # A fact belongs to the user, in every session. Stated again it is the same row.
        await memory.remember_fact("Ana prefers tea, and no sugar")
        again = await memory.remember_fact("ana prefers tea, and no sugar.")
        print("stated twice, kept once:", not again.was_new)
        # A large tool output has a preview, and a key to read all of it.
        table = "".join(f"order {number}: shipped\n" for number in range(2_000))
        output = await memory.remember(table, kind="tool_output", source_ref="call-17")
        assert output.payload_key is not None

        for question in ("When is the launch?", "What does Ana like to drink?", "Which orders were shipped?"):
            answer = await memory.recall(question, top_k=1)
            first = answer.items[0]
            print(f"{question}  →  {first.content.splitlines()[0]}  [{first.source_kind}, {first.score:.2f}]")

        whole = await memory.read_tool_output(output.payload_key)
        print("the whole output has", whole.content.count("\n"), "lines")

        # Another session knows the fact and not the messages.
        tuesday = memory.acting_as(session="tuesday")
        print("on Tuesday:", [item.content for item in (await tuesday.recall("tea or launch?")).items])

        # Why did recall find it?
        why = await memory.recall("tea", top_k=1, explain=True)
        assert why.trace is not None
        print("found by:", {arm: rank for arm, rank in why.trace["items"][0]["ranks"].items() if rank})


asyncio.run(main())
