"""Real agent runs replayed through the library: what lands, whether it comes back byte for byte, and what is learned of it.

    python bench/agent_runs.py --data ../shared/data [--runs 200]

Each run becomes a session of its user with its messages, its tool calls (large results elided) and its reward. Then two
strategies are told apart by Thompson sampling: short runs and long runs, each rewarded with rewards of that data.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.table import Table

from recordari.app import Memory
from recordari.config import Settings
from recordari.sessions.rules.runs import NewToolCall
from recordari.sessions.rules.window import MessageRole, NewMessage

RESULTS = Path(__file__).parent / "results"
ROUNDS = 400
Recorded = tuple[str, str, str]


async def land(memory: Memory, number: int, run: dict[str, Any]) -> tuple[str, list[Recorded]]:
    """Store one run as an agent would while it works; its id and the tool calls as they were."""
    session = memory.acting_as(user=run["info"]["task"]["user_id"], agent="airline", session=f"run-{number}")
    started = await session.start_run(run_id=f"airline-{number}", input={"task_id": run["task_id"]})
    run_id, calls = started.run.run_id, []
    said: list[NewMessage] = []
    for place, turn in enumerate(run["traj"]):
        if turn["role"] in {"user", "assistant"} and (turn.get("content") or "").strip():
            said.append(
                NewMessage(content=turn["content"], role=MessageRole(turn["role"]), message_id=f"{number}-{place}")
            )
        for step, call in enumerate(turn.get("tool_calls") or [], start=1):
            function, answered = call["function"], run["traj"][place + step : place + step + 1]
            # The data gives one id to several calls of a run; the answer follows the call.
            result = answered[0]["content"] if answered and answered[0]["role"] == "tool" else ""
            calls.append((function["name"], function["arguments"], result))
            await session.record_tool_calls(
                run_id,
                [
                    NewToolCall(
                        name=function["name"],
                        arguments=function["arguments"],
                        result=result or None,
                        call_id=call["id"],
                    )
                ],
            )
    await session.add_messages(said)
    await session.complete_run(run_id, output={"reward": run["reward"]})
    await session.append_episode(
        f"Task {run['task_id']} ended with reward {run['reward']:.0f}", episode_id=f"e-{number}"
    )
    return run_id, calls


async def check(memory: Memory, run_id: str, calls: list[Recorded]) -> bool:
    """Whether the replay of a run equals what was put in."""
    replay = await memory.replay_run(run_id)
    return [(call.name, call.arguments, call.result or "") for call in replay.calls] == calls


async def learn(memory: Memory, rewards: dict[str, list[float]], seed: int) -> list[float]:
    """Choose and reward; the regret after each round against always taking the better one."""
    chance = random.Random(seed)
    for name in rewards:
        await memory.save_workflow(name, {"strategy": name}, agent_type="airline", task_type="support")
    best, regret, curve = max(mean(values) for values in rewards.values()), 0.0, []
    for number in range(ROUNDS):
        choice = await memory.choose("airline", "support", seed=f"{seed}-{number}")
        name = choice.workflow.name
        await memory.reward(choice, chance.choice(rewards[name]), outcome_id=f"{seed}-{number}")
        regret += best - mean(rewards[name])
        curve.append(regret)
    return curve


async def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Land, check and learn."""
    runs = json.loads((arguments.data / "agent_runs" / "tau_bench_gpt4o_airline.json").read_text())[: arguments.runs]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        settings = Settings(home=Path(folder) / "home", embedding_profile="fast")
        async with Memory.open(settings=settings) as memory:
            await memory.update_tenant(settings={"privacy": {"enabled": False}})  # what is compared is every byte
            started = time.perf_counter()
            landed = [await land(memory, number, one) for number, one in enumerate(runs)]
            seconds = time.perf_counter() - started
            equal = sum([await check(memory, run_id, calls) for run_id, calls in landed])
            calls = sum(len(one) for _, one in landed)
            elided = sum(len(result.encode()) > 16_384 for _, one in landed for _, _, result in one)
            middle = sorted(len(one["traj"]) for one in runs)[len(runs) // 2]
            rewards = {
                "short": [one["reward"] for one in runs if len(one["traj"]) <= middle],
                "long": [one["reward"] for one in runs if len(one["traj"]) > middle],
            }
            curve = await learn(memory, rewards, arguments.seed)
            chosen = {one.name: one for one in await memory.active_workflows("airline", "support")}
    report: dict[str, Any] = {
        "runs": len(runs),
        "tool_calls": calls,
        "elided_outputs": elided,
        "replays_equal": equal,
        "seconds": seconds,
        "mean_reward": {name: mean(values) for name, values in rewards.items()},
        "trials": {name: one.alpha + one.beta - 2 for name, one in chosen.items()},
        "regret": {str(place): curve[place - 1] for place in (10, 25, 50, 100, 200, ROUNDS)},
    }
    table = Table(title="agent runs")
    table.add_column("what")
    table.add_column("figure", justify="right")
    for name, value in report.items():
        table.add_row(name.replace("_", " "), json.dumps(value) if isinstance(value, dict) else f"{value:g}")
    console.print(table)
    worst = ROUNDS * (max(report["mean_reward"].values()) - min(report["mean_reward"].values()))
    console.print(f"regret after {ROUNDS} rounds {curve[-1]:.1f}; always the worse one would be {worst:.1f}")
    for place in range(0, ROUNDS, ROUNDS // 20):
        console.print(f"{place:4d} {'▪' * round(curve[place] * 60 / max(worst, 1e-9))}")
    return report


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    console = Console(width=110)
    if not (arguments.data / "agent_runs").exists():
        console.print(f"not measured: {arguments.data / 'agent_runs'} is not there")
        return
    report = asyncio.run(run(arguments, console))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "agent_runs.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
