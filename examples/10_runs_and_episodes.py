"""Record what an agent did: a run with its turns, tool calls and cost, an exact replay, and episodes for the next run.

python examples/10_runs_and_episodes.py
"""

import asyncio
import json
from decimal import Decimal

from recordari import Memory, NewToolCall
from recordari.sessions.rules.runs import RunUsage


async def main() -> None:
    async with Memory.open(user="ana", agent="support", session="parcel") as memory:
        started = await memory.start_run(run_id="run-1", input={"task": "find the parcel"})
        print("episodes to begin with:", len(started.episodes))

        # Values that a task hands to its run live as long as the run.
        await memory.delegate("order", {"id": "QX-7781"}, run_id="run-1")
        print("delegated:", await memory.delegated(run_id="run-1"))

        # Arguments are kept to the letter, results whole: also those that recall shows as a preview.
        tracking = json.dumps([{"hour": hour, "place": "depot"} for hour in range(2_000)])
        await memory.record_tool_calls(
            "run-1",
            [NewToolCall(name="track", arguments='{"id":"QX-7781"}', result=tracking, number=1, useful=True)],
        )
        await memory.end_turn("run-1", usage=RunUsage(tokens_in=900, tokens_out=60, cost=Decimal("0.004")))

        # A second turn of the same run; this tool fails.
        await memory.start_turn("run-1")
        await memory.record_tool_calls(
            "run-1", [NewToolCall(name="refund", arguments={"id": "QX-7781"}, error="needs a signature", number=2)]
        )
        done = await memory.complete_run("run-1", output={"answer": "It is in the depot."})
        print(f"{done.status}: {done.turns} turns, {done.calls} calls, {done.cost:.3f} {done.currency}")

        replay = await memory.replay_run("run-1")
        for call in replay.calls:
            print(f"call {call.number}: {call.name}({call.arguments})", call.error or f"{len(call.result or '')} bytes")
        print("the whole result is there:", replay.calls[0].result == tracking)

        # An episode says what happened. The agent's next run starts with the last ten.
        await memory.append_episode("Found parcel QX-7781 in the depot; a refund needs a signature.", run_id="run-1")
        following = await memory.start_run(run_id="run-2", input={"task": "refund the parcel"})
        print("run-2 knows:", following.episodes[0].content)
        failed = await memory.fail_run("run-2", error="no signature yet")
        print("run-2:", failed.status, "because", failed.error)


asyncio.run(main())
