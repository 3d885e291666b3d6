"""Standing wishes: whether recall finds what an answer must heed, though it shares no word with the question.

    python bench/wishes.py --data ../shared/data --profile fast

Each wish is a message in a session of its own, in the middle of a LongMemEval history of about 500 messages. The questions ask
for something that a wish is about. Recall@5 and the mean reciprocal rank, for the cases that the rule was made with and for
those that were written before it and only measured.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.config import Settings
from recordari.core.items import Trust
from recordari.evaluation.retrieval import References, ingest, open_haystack, retrieve
from recordari.evaluation.rules.formats import GoldQuestion, Haystack
from recordari.evaluation.rules.measures import Score
from recordari.wiring import open_resources

Cases = tuple[tuple[str, str], ...]
KNOWN: Cases = (
    ("Always give me vegetarian options when I ask about recipes.", "What could I cook for my parents on Sunday?"),
    ("Always format dates as YYYY-MM-DD when I ask about deadlines.", "By when must I hand in the grant application?"),
    ("Please never use bullet points when I ask for an email draft.", "Write a short mail to my landlord."),
    ("Whenever I ask for code, use type hints and no comments.", "Can you write a Python function that parses a log?"),
    ("From now on, quote prices in euros when I ask about travel.", "How much is a hotel room in Lisbon in May?"),
    ("If I ask for a workout, remember that my left knee must not be strained.", "Plan me a session at the gym."),
    ("Always mention the source when I ask about medicine.", "Can I take ibuprofen with my blood pressure pills?"),
    ("When I ask about films, leave out anything with horror.", "Which movie should we watch tonight?"),
    ("I'd prefer answers under 100 words when I ask about the news.", "What happened in the elections?"),
    ("Never suggest flying when I ask about trips, we go by train.", "How do we best get to Vienna?"),
    ("Always show the formula when I ask about statistics.", "What is the standard deviation of these grades?"),
    ("When I want feedback on a text, be blunt and start with the weakest part.", "Have a look at this paragraph."),
)
FRESH: Cases = (
    (
        "Every time I ask for a restaurant, check that it is accessible by wheelchair.",
        "Where can we eat near the station?",
    ),
    ("Always include the version number when I ask about libraries.", "Which package should I install for PDF files?"),
    ("Please always answer in Spanish when I ask about my homework.", "Explain the second exercise to me."),
    ("When I ask for music, nothing with explicit lyrics: the children listen.", "Play some songs for the drive."),
    ("Going forward, give temperatures in Celsius when I ask about the weather.", "Will it be warm tomorrow?"),
    ("Never recommend products of that brand when I ask about headphones.", "Which earbuds are good for running?"),
    ("If I ask about investments, add a warning about the risk.", "Should I put my savings into index funds?"),
    ("Always use the metric system when I ask about distances.", "How far is it from Boston to Montreal?"),
    ("When I ask about my diet, keep in mind that I do not eat nuts.", "What is a good snack for the afternoon?"),
    (
        "I want you to give step by step instructions when I ask about repairs.",
        "The kitchen tap drips. How do I fix it?",
    ),
    ("Whenever I ask for a present for Mia, stay below 30 dollars.", "What could I give Mia for her birthday?"),
    ("Always present two alternatives when I ask about design decisions.", "How should we lay out the landing page?"),
    ("Please avoid spoilers when I ask about books.", "What is the novel by Ishiguro about?"),
    ("Make sure to use formal language when I ask for a letter.", "Draft a note to the school's principal."),
    ("Always start with a summary when I ask about contracts.", "What does the lease say about pets?"),
    ("Don't ever use abbreviations when I ask about chemistry.", "How does salt dissolve in water?"),
)


def history(base: Haystack, cases: Cases, name: str) -> Haystack:
    """The base with each wish as a message of its own session, spread over its time."""
    times = sorted(turn.event_time for turn in base.turns if turn.event_time is not None)
    message = next(turn for turn in base.turns if turn.trust is Trust.USER)
    said = [
        replace(
            message,
            content=wish,
            session_id=f"wish-{number}",
            source_ref=f"wish-{number}#0",
            event_time=times[(number + 1) * len(times) // (len(cases) + 2)],
        )
        for number, (wish, _) in enumerate(cases)
    ]
    asked = times[-1] + timedelta(days=1)
    questions = [
        GoldQuestion(
            question_id=f"{number}", text=text, category=name, evidence=frozenset({f"wish-{number}#0"}), asked_at=asked
        )
        for number, (_, text) in enumerate(cases)
    ]
    return replace(base, name=f"wishes-{name}", turns=(*base.turns, *said), questions=tuple(questions))


async def run(arguments: argparse.Namespace) -> None:
    base = haystacks("longmemeval", arguments.data)[0]
    drawn = Table(title=f"standing wishes, profile {arguments.profile}")
    for column in ("", "questions", "recall@1", "recall@5", "recall@10", "MRR"):
        drawn.add_column(column, justify="right" if column else "left")
    settings = Settings(home=arguments.home, embedding_profile=arguments.profile)
    console = Console(width=120)
    async with open_resources(settings) as resources:
        for name, cases in (("known", KNOWN), ("fresh", FRESH)):
            store = history(base, cases, name)
            await ingest(resources, [store])
            memory, references, score = await open_haystack(resources, store), References(), Score()
            for question in store.questions:
                found = await retrieve(memory, question, references)
                score.add(found.refs, question.evidence)
                if arguments.show and not question.evidence & set(found.refs[:5]):
                    console.print(f"missed: {question.text} ({cases[int(question.question_id)][0]})")
            means = score.means()
            columns = (means[one] for one in ("recall@1", "recall@5", "recall@10", "MRR"))
            drawn.add_row(name, str(score.questions), *(f"{value:.3f}" for value in columns))
    console.print(drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast", "thorough"], default="fast")
    parser.add_argument("--show", action="store_true", help="print what is not among the first five")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
