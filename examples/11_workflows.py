"""Let an agent learn which way of doing a task works best: workflows, chosen and rewarded.

    python examples/11_workflows.py

Each workflow has a Beta posterior of its success. `choose` draws from each and takes the best (Thompson sampling).
"""

import asyncio
import random

from recordari import Memory

SUCCESS = {"search-first": 0.35, "ask-first": 0.5, "plan-first": 0.8}  # how the world is; the agent does not know it


async def main() -> None:
    async with Memory.open(agent="support") as memory:
        for name in SUCCESS:
            await memory.save_workflow(name, {"steps": name.split("-")}, agent_type="support", task_type="refund")

        world, chosen = random.Random(7), dict.fromkeys(SUCCESS, 0)
        for turn in range(150):
            choice = await memory.choose("support", "refund", seed=turn)
            chosen[choice.workflow.name] += 1
            succeeded = world.random() < SUCCESS[choice.workflow.name]
            await memory.reward(choice, 1.0 if succeeded else 0.0)

        for workflow in await memory.active_workflows("support", "refund"):
            low, high = workflow.posterior.interval()
            print(f"{workflow.name}: {workflow.posterior.mean:.2f}, between {low:.2f} and {high:.2f}")
        print("chosen most:", max(chosen, key=lambda name: chosen[name]))

        # The same outcome again changes nothing: a retry is safe.
        again = await memory.reward(choice, 1.0 if succeeded else 0.0)
        print("counted twice:", again.was_new)

        # Another spec under the same name is the next version. It begins with a new posterior.
        saved = await memory.save_workflow(
            "ask-first", {"steps": ["ask", "confirm"]}, agent_type="support", task_type="refund"
        )
        print(f"version {saved.workflow.version}, {saved.workflow.rewards} rewards")

        # A retired workflow is never chosen again, and stays readable.
        (worst,) = [one for one in await memory.active_workflows("support", "refund") if one.name == "search-first"]
        await memory.retire_workflow(worst.workflow_id)
        left = await memory.active_workflows("support", "refund")
        print("left:", sorted(one.name for one in left))


asyncio.run(main())
