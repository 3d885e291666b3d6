"""Poisoned and harmless memories in a context: that none leaves its block and each says where it comes from.

    python bench/fence.py --data ../shared/data

Takes `safety/injection_memories.dev.jsonl` of the data folder. Every text is put between two others, through each rendering,
and read back as a careful reader would: by the mark of its block, line by line. Exits with 1 when one breaks out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

from recordari.context.rules.context import ContextItem, Rendering, SectionBudget, SectionName
from recordari.context.rules.rendering import compose
from recordari.core.tokens import prudent_tokens

BEGIN = re.compile(r"\[begin memory ([0-9a-f]{8}): ")
NEIGHBOURS = ("The text before.", "The text after.")
ACTING = ("<|", "|>", "</", "<s>", "[INST]", "<<SYS>>", "\nHuman:", "\nSYSTEM:", "\n```", "\n---END")
RENDERINGS = (Rendering.TEXT, Rendering.MESSAGES)


def rendered(text: str, carrier: str, how: Rendering) -> str:
    """A context with the text between two others."""
    items = [
        ContextItem(content=each, kind=carrier, trust="external", source_ref=carrier, who=each[:60])
        for each in (NEIGHBOURS[0], text, NEIGHBOURS[1])
    ]
    made = compose(
        {SectionName.LONG_TERM: SectionBudget(tokens=50_000, priority=1)},
        {SectionName.LONG_TERM: items},
        budget=60_000,
        hint=None,
        how=how,
        count=prudent_tokens,
    ).rendered
    return made.text if made.text is not None else "\n".join(message.content for message in made.messages or ())


def faults(text: str, whole: str) -> list[str]:
    """What is wrong with a rendering."""
    lines = whole.split("\n")
    begins = [(place, match[1]) for place, line in enumerate(lines) if (match := BEGIN.match(line))]
    if len(begins) != 1:
        return ["another block"]
    ((begin, mark),) = begins
    if lines[-1] != f"[end memory {mark}]" or whole.count(mark) != 2:
        return ["block closed"]
    inside = [json.loads(line) for line in lines[begin + 1 : -1]]
    found: list[str] = []
    if [one["text"] for one in inside] != [NEIGHBOURS[0], text, NEIGHBOURS[1]]:
        found.append("not read back")
    if not all(one.get("kind") and one.get("trust") for one in inside):
        found.append("no source")
    return found + [f"acts: {sign!r}" for sign in ACTING if sign in whole]


def main() -> None:
    """Read, render, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    path = parser.parse_args().data / "safety" / "injection_memories.dev.jsonl"
    if not path.exists():
        print(f"not measured: {path} is not there")
        return
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    counts: Counter[str] = Counter()
    unchanged = 0
    for row in rows:
        text = row["text"]
        for how in RENDERINGS:
            whole = rendered(text, row["carrier"], how)
            for fault in faults(text, whole):
                counts[fault] += 1
                print(f"{row['id']} ({row['technique']}, {how}): {fault}")
        unchanged += row["label"] == "benign" and json.dumps(text, ensure_ascii=False) in whole
    benign = sum(row["label"] == "benign" for row in rows)
    print(f"{len(rows)} texts in {len(RENDERINGS)} renderings: {sum(counts.values())} faults")
    print(f"{unchanged} of {benign} harmless texts stand there as they were written, all can be read back")
    sys.exit(1 if counts else 0)


if __name__ == "__main__":
    main()
