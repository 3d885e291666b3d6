"""Knowledge updates in chats: whether the newer statement ranks above the older one, also where it fits the words worse.

    python bench/updates.py --data ../shared/data --profile fast

Each case is two messages of the user in two sessions, months apart, in a LongMemEval history of about 500 messages. The older
one has more of the question's words. `newest first`: the newer one is found, and above the older one.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from recall import haystacks
from recordari.config import Settings
from recordari.core.items import Trust
from recordari.evaluation.retrieval import References, ingest, open_haystack, retrieve
from recordari.evaluation.rules.formats import GoldQuestion, Haystack
from recordari.wiring import open_resources

# The older statement, the newer one, and the question.
CASES: tuple[tuple[str, str, str], ...] = (
    (
        "I work as a nurse at the children's hospital.",
        "First week at the dental clinic went well, no more night shifts.",
        "Where do I work?",
    ),
    (
        "My gym is on Park Street, I go there three times a week.",
        "The new climbing hall has replaced my old workouts, four evenings now.",
        "How many times a week do I go to the gym?",
    ),
    (
        "I drive a red Mazda to the office.",
        "Sold the Mazda on Friday; the Skoda is so much quieter.",
        "What car do I drive?",
    ),
    (
        "My daughter Lina plays the violin in the school orchestra.",
        "Lina gave up strings and is all about the drums these days.",
        "Which instrument does my daughter play?",
    ),
    (
        "I am reading the third chapter of the Russian grammar.",
        "Got to chapter nine tonight, the verbs of motion.",
        "Which chapter of the Russian grammar am I at?",
    ),
    (
        "Our rent is 1,150 euros a month.",
        "The landlord wrote: from June it is 1,240.",
        "How much rent do we pay a month?",
    ),
    (
        "My flight to Oslo leaves at 7:40 in the morning.",
        "The airline moved the Oslo departure to a quarter past eleven.",
        "What time does my flight to Oslo leave?",
    ),
    (
        "I take 20 mg of the blood pressure tablets.",
        "Doctor cut the dose in half after the last check, 10 is enough.",
        "What dose of blood pressure tablets do I take?",
    ),
    (
        "My favourite restaurant is the Thai place by the river.",
        "Nothing beats Osteria Luna any more, we were there twice this month.",
        "What is my favourite restaurant?",
    ),
    (
        "The book club meets on Tuesdays at seven.",
        "From now on it is the first Thursday for us readers, same hour.",
        "On which day does the book club meet?",
    ),
    (
        "My sister lives in Leipzig with her two cats.",
        "Helped my sister carry boxes up to her flat in Graz.",
        "Where does my sister live?",
    ),
    (
        "I have saved 2,300 euros for the motorbike.",
        "Put another 400 aside, that makes 2,700 in the jar.",
        "How much have I saved for the motorbike?",
    ),
    (
        "My running record over ten kilometres is 52 minutes.",
        "49:30 today! Never been faster over that distance.",
        "What is my record over ten kilometres?",
    ),
    (
        "My boss is Mr Keller, he is strict about deadlines.",
        "Keller retired; Frau Demir runs the team now and is easier.",
        "Who is my boss?",
    ),
    (
        "I am learning Spanish with an app.",
        "Deleted the app, I sit in an evening class on Wednesdays instead.",
        "How am I learning Spanish?",
    ),
    (
        "Our dog weighs 18 kilos, says the vet.",
        "The vet put Bruno on the scales: 21.5, too many treats.",
        "How much does our dog weigh?",
    ),
    (
        "My phone number at work ends in 42.",
        "They gave me another extension after the move, 77 at the end.",
        "What does my phone number at work end in?",
    ),
    (
        "I live in a flat in Hamburg-Altona.",
        "Finally unpacked the last box in the house in Lüneburg.",
        "Where do I live?",
    ),
    (
        "I am vegetarian and eat no meat.",
        "Had chicken again, I gave up on the meat-free thing in spring.",
        "Do I eat meat?",
    ),
    (
        "The kitchen will be painted yellow, I decided.",
        "Changed my mind at the shop: sage green for the kitchen.",
        "What colour will the kitchen be painted?",
    ),
    (
        "I have 14 stamps from Japan in my collection.",
        "Three more Japanese ones came by post, so seventeen.",
        "How many stamps from Japan do I have in my collection?",
    ),
    (
        "My meeting with the tax adviser is on 3 May.",
        "She could not make it, we now see each other on the 17th about taxes.",
        "When is my meeting with the tax adviser?",
    ),
    (
        "My laptop is an old ThinkPad with Windows.",
        "Wiped it and put Debian on the ThinkPad, Windows is history.",
        "Which system does my laptop have?",
    ),
    (
        "I play badminton with Jonas every Monday.",
        "Jonas broke his wrist, so Mira is on the other side of the net until further notice.",
        "With whom do I play badminton?",
    ),
)


def history(base: Haystack) -> Haystack:
    """The cases in a history: the older statements in its first half, the newer ones in its second."""
    message = next(turn for turn in base.turns if turn.trust is Trust.USER)
    times = sorted(turn.event_time for turn in base.turns if turn.event_time is not None)
    said, questions, many = [], [], len(CASES)
    for number, (older, newer, question) in enumerate(CASES):
        for name, content, place in (("old", older, number), ("new", newer, many + number)):
            moment = times[0] + (times[-1] - times[0]) * (place + 1) / (2 * many + 1)
            ref = f"{name}-{number}"
            said.append(replace(message, content=content, session_id=ref, source_ref=f"{ref}#0", event_time=moment))
        evidence = frozenset({f"old-{number}#0", f"new-{number}#0"})
        asked = times[-1] + timedelta(days=1)
        questions.append(
            GoldQuestion(question_id=f"{number}", text=question, category="update", evidence=evidence, asked_at=asked)
        )
    return replace(base, name="updates", turns=(*base.turns, *said), questions=tuple(questions))


async def run(arguments: argparse.Namespace) -> None:
    """Ask every question and count."""
    console, store = Console(width=120), history(haystacks("longmemeval", arguments.data)[0])
    first, in_ten, in_five = [], [], []
    async with open_resources(Settings(home=arguments.home, embedding_profile=arguments.profile)) as resources:
        await ingest(resources, [store])
        memory, references = await open_haystack(resources, store), References()
        for question in store.questions:
            refs = list((await retrieve(memory, question, references)).refs)
            old, new = (f"{name}-{question.question_id}#0" for name in ("old", "new"))
            places = [refs.index(ref) if ref in refs else len(refs) for ref in (old, new)]
            first.append(places[1] < places[0])
            in_five.append(places[1] < 5)
            in_ten.append(places[1] < 10)
            if arguments.show and not first[-1]:
                console.print(f"older at {places[0] + 1}, newer at {places[1] + 1}: {question.text}")
    console.print(
        f"profile {arguments.profile}, {len(first)} cases: newest first {sum(first)}, "
        f"newest in the first five {sum(in_five)}, in the first ten {sum(in_ten)}"
    )


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast", "thorough"], default="fast")
    parser.add_argument("--show", action="store_true", help="print the cases where the older one is first")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
