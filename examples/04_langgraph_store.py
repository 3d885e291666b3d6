"""A LangGraph graph whose long-term memory is Recordari (pip install 'recordari[langgraph]').

Run it: python examples/04_langgraph_store.py. No model and no key are needed: the nodes are plain functions.
"""

from __future__ import annotations

from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore

from recordari.integrations.langgraph import RecordariStore
from recordari.sync import Memory


class Talk(TypedDict):
    said: str


def learn(state: Talk, *, store: BaseStore) -> Talk:
    if state["said"].startswith("I like "):
        store.put(("taste",), "drink", {"text": "likes " + state["said"].removeprefix("I like ")})
    return state


def answer(state: Talk, *, store: BaseStore) -> Talk:
    found = store.search(("taste",), query=state["said"], limit=1)
    return {"said": f"you {found[0].value['text'].replace('likes', 'like')}" if found else "I do not know"}


builder = StateGraph(Talk)
builder.add_node("learn", learn)
builder.add_node("answer", answer)
builder.add_edge(START, "learn")
builder.add_edge("learn", "answer")
builder.add_edge("answer", END)

if __name__ == "__main__":
    with Memory.open(user="ana") as memory:
        graph = builder.compile(store=RecordariStore(memory))
        graph.invoke({"said": "I like oolong tea"})
        print(graph.invoke({"said": "Which tea do I like?"})["said"])
        print("found by recall:", memory.recall("tea").items[0].content)
