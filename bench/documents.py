"""Questions in other words over this project's own documentation: how often the right page is found.

    python bench/documents.py --profile fast

Each question avoids the words of the page where it can. A page counts once, at its best chunk.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from rich.console import Console

from recall import table
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.evaluation.rules.measures import Score
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources

DOCS = Path(__file__).parent.parent / "docs"
# The question, and the pages of which each answers it.
QUESTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Somebody wants all their data gone under GDPR, what do I have to do?",
        ("how-to/comply-with-an-erasure-request",),
    ),
    ("Which metric tells me that the queue of background work is stuck?", ("how-to/observe",)),
    ("How do I swap the model that makes the vectors without downtime?", ("how-to/change-the-embedding-model",)),
    ("Can it sit behind pgbouncer on a hosted database?", ("how-to/managed-postgresql",)),
    ("Wire it up with Claude Desktop", ("how-to/connect-an-mcp-host",)),
    ("How are phone numbers and credit cards hidden before they are stored?", ("privacy",)),
    ("What is dropped first when the prompt gets too long?", ("context",)),
    ("Can a malicious note in memory give the agent orders?", ("context", "security")),
    ("What happens to old memories that nobody ever uses?", ("forgetting", "consolidation")),
    ("Two statements contradict each other, which one wins?", ("facts",)),
    ("Let a colleague's organisation read part of what we know", ("sharing",)),
    ("Stop deletion of records because of a lawsuit", ("forgetting",)),
    ("Is SQL written by a model able to change my tables?", ("databases", "security")),
    ("Which file types can I upload to the handbook?", ("knowledge",)),
    ("Does it read scanned pages?", ("knowledge",)),
    ("I use LangChain's graph library, how do I plug this in?", ("integrations",)),
    ("Switch over from a competitor and keep what it has learnt", ("migrate-from-mem0",)),
    ("Get notified by an HTTP callback when something changes", ("rest",)),
    ("Retry a request safely without writing twice", ("rest",)),
    ("What if the server crashes in the middle of a write?", ("reliability",)),
    ("How does it react when too many requests arrive at once?", ("reliability",)),
    ("Take everything out of one installation and put it into another", ("export",)),
    ("How sure is an answer, and can it say that it does not know?", ("ranking", "recall")),
    ("Helm chart", ("how-to/run-in-containers",)),
    ("Quick start for beginners", ("tutorial", "index")),
    ("Use it from JavaScript in the browser or Node", ("typescript",)),
    ("How many milliseconds does one conversation step cost?", ("speed",)),
    ("Will my scripts still work after upgrading to the next major version?", ("releases",)),
    ("Log in to the web page as an administrator", ("dashboard",)),
    ("How are steps of a long job remembered so that it can be resumed?", ("working-memory",)),
)


async def run(arguments: argparse.Namespace) -> None:
    """Add every page and ask every question."""
    console, tenant = Console(width=140), "project-docs"
    async with open_resources(Settings(home=arguments.home, embedding_profile=arguments.profile)) as resources:
        await tenants.ensure_tenant(resources, tenant)
        memory = Memory(resources, Identity(tenant_id=tenant_id_of(tenant), role=Role.ADMIN))
        async with background_worker(resources):
            for file in sorted(DOCS.rglob("*.md")):
                await memory.add_document(str(file.relative_to(DOCS)), text=file.read_text())
            while (await memory.search_knowledge("anything", top_k=1)).degraded:
                await asyncio.sleep(0.5)
        score, missed = Score(), []
        for question, pages in QUESTIONS:
            answer = await memory.search_knowledge(question, top_k=20)
            cited = [item.citation.document.removesuffix(".md") for item in answer.items if item.citation is not None]
            # One page is enough: the others count as the first of them.
            found = list(dict.fromkeys("the page" if one in pages else one for one in cited))
            score.add(found, frozenset({"the page"}))
            if found[:1] != ["the page"]:
                missed.append(f"{question} → {found[0]}")
    console.print(table(f"{len(QUESTIONS)} questions in other words, profile {arguments.profile}", [("all", score)]))
    if arguments.missed:
        console.print("\n".join(missed))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast", "thorough"], default="fast")
    parser.add_argument("--missed", action="store_true", help="also show the questions whose page is not the first")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
