"""Fills a tenant with the story of the demonstration, through the same verbs that an agent calls."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from importlib import resources as package_resources
from itertools import cycle
from pathlib import Path
from typing import Any

from recordari.app import Memory
from recordari.core.items import Kind, NewItem
from recordari.db.queries import Queries
from recordari.runner import background_worker
from recordari.sessions.rules.runs import NewToolCall, RunUsage
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.tenants.rules import AgentDefinition

queries = Queries(__name__)

AGENT = "mila"
SHOP = "shop.db"
LOOK_SECONDS = 0.2
DRAWS = 36
A_MESSAGE = timedelta(minutes=2)
A_MOMENT = timedelta(seconds=10)
SINCE = timedelta(days=120)  # the shop has had its agent
EARLIER = timedelta(hours=2)  # so that the whole of a conversation is as many days ago


def story() -> dict[str, Any]:
    text = package_resources.files(__package__).joinpath("story.json").read_text("utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


async def fill(memory: Memory, *, files: Path) -> None:
    """Tell the story to a new tenant, and let the background work finish; `files` is the folder of SQLite files."""
    told = story()
    now = memory.resources.clock()
    await memory.save_agent(AGENT, AgentDefinition(**told["agent"]))
    for user, (name, zone) in told["users"].items():
        await memory.save_user(user, display_name=name, time_zone=zone)
    async with background_worker(memory.resources):
        for document in told["documents"]:
            await at(memory, now - SINCE).add_document(
                document["name"], document["text"].encode(), metadata={"title": document["title"]}
            )
        for happened in sorted([*told["facts"], *told["sessions"]], key=lambda one: -one["days_ago"]):
            if "session" in happened:
                runs = [run for run in told["runs"] if run["session"] == happened["session"]]
                await _talk(memory, happened, runs, now)
            else:
                await _tell_fact(memory, happened, now)
            await _settle(memory)  # what was said first is learnt first
            if happened.get("closed"):
                ended = now - timedelta(days=happened["days_ago"])
                await at(memory, ended).consolidate_session(happened["session"])
        for task in (told["workflows"], told["more_workflows"]):
            await _learn(memory, task, now)
        await _connect(memory, files / SHOP, told["orders"])
        await _settle(memory)
        await _use(memory, told)
        async with memory.resources.database.transaction(memory.identity) as tx:
            await tx.run(queries.backdate_items)
            for query in (queries.backdate_users, queries.backdate_agents, queries.backdate_sources):
                await tx.run(query, since=now - SINCE)
        await memory.review_memory()
        await memory.make_daily_brief()
        await _settle(memory)


def at(memory: Memory, moment: datetime) -> Memory:
    """The same memory, in which it is that moment."""
    return Memory(replace(memory.resources, clock=lambda: moment), memory.identity)


async def _tell_fact(memory: Memory, fact: Mapping[str, Any], now: datetime) -> None:
    told_by = memory.acting_as(user=fact.get("user"), agent=AGENT)
    told_at = now - timedelta(days=fact["days_ago"])
    await told_by.remember_many(
        [NewItem(content=fact["text"], kind=Kind.FACT, scope=fact["scope"], event_time=told_at)]
    )


async def _talk(memory: Memory, session: Mapping[str, Any], runs: list[Mapping[str, Any]], now: datetime) -> None:
    began = now - timedelta(days=session["days_ago"]) - EARLIER
    talk = at(memory, began).acting_as(user=session["user"], agent=AGENT, session=session["session"])
    last = len(session["messages"]) - 1
    for number, message in enumerate(session["messages"]):
        if number == last:  # its last words tell what was done
            for run in runs:
                await _work(memory, run, began + (number - 1) * A_MESSAGE + A_MOMENT)
        said = NewMessage(
            content=message["text"], role=MessageRole(message["role"]), event_time=began + number * A_MESSAGE
        )
        await talk.add_messages([said])
    if session["closed"]:
        await talk.close_session(session["session"])


async def _work(memory: Memory, run: Mapping[str, Any], moment: datetime) -> None:
    mila = memory.acting_as(user=run["user"], agent=AGENT, session=run["session"])
    run_id, number = run["run"], 0
    await at(mila, moment).start_run(run_id=run_id, input=run["input"])
    for place, turn in enumerate(run["turns"]):
        if place:
            await at(mila, moment).start_turn(run_id)
        calls = []
        for name, arguments, result, milliseconds, *error in turn["calls"]:
            number += 1
            call = NewToolCall(
                name=name,
                arguments=arguments,
                result=result,
                latency_ms=milliseconds,
                started_at=moment,
                number=number,
                error=error[0] if error else None,
            )
            moment += timedelta(milliseconds=milliseconds + 900)
            calls.append(call)
        await at(mila, moment).record_tool_calls(run_id, calls)
        tokens_in, tokens_out = turn["tokens"]
        spent = RunUsage(tokens_in=tokens_in, tokens_out=tokens_out, cost=Decimal(turn["cost"]))
        await at(mila, moment).end_turn(run_id, usage=spent)
    if "error" in run:
        await at(mila, moment).fail_run(run_id, error=run["error"])
    else:
        await at(mila, moment).complete_run(run_id, output=run["output"])


async def _learn(memory: Memory, task: Mapping[str, Any], now: datetime) -> None:
    """Save the ways to do a task, and let each be chosen and rewarded."""
    agent_type, task_type = task["agent_type"], task["task_type"]
    mila = memory.acting_as(agent=AGENT)
    for place, (name, (spec, _)) in enumerate(task["ways"].items()):
        started = at(memory, now - timedelta(days=60 + place))
        await started.save_workflow(name, spec, agent_type=agent_type, task_type=task_type)
    scores = {name: cycle(scores) for name, (_, scores) in task["ways"].items()}
    for draw in range(DRAWS):
        then = at(mila, now - timedelta(days=58 * (1 - draw / DRAWS)))
        choice = await then.choose(agent_type, task_type, seed=f"{task_type} {draw}")
        if draw < DRAWS - 1:  # the last one still waits for its reward
            await then.reward(choice, next(scores[choice.workflow.name]))


async def _connect(memory: Memory, file: Path, orders: list[list[Any]]) -> None:
    with sqlite3.connect(file) as shop:
        shop.execute("CREATE TABLE orders (number TEXT, customer TEXT, article TEXT, price INTEGER, status TEXT)")
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", orders)
    shop.close()
    await memory.add_database(
        "shop",
        f"sqlite:///{file.name}",
        tables=["orders"],
        description="Orders of the shop: article, price and status.",
    )
    await memory.query_data(sql="SELECT status, count(*) AS orders FROM orders GROUP BY status", database="shop")


async def _use(memory: Memory, told: Mapping[str, Any]) -> None:
    """Ask what an agent would ask, and correct what a person would correct."""
    for user, question in told["questions"]:
        mila = memory.acting_as(user=user, agent=AGENT, session=f"{user}-today")
        await mila.recall(question)
        await mila.get_context(question)
    facts = await memory.list_items(kinds=[Kind.FACT], limit=200)
    for fact in facts.items:
        if any(words in fact.content for words in told["pinned"]):
            await memory.pin_item(fact.item_id)


async def _settle(memory: Memory) -> None:
    while True:
        work = await memory.job_counts()
        if not any(work.outbox_pending.values()):
            return
        await asyncio.sleep(LOOK_SECONDS)
