"""The offline extractor: what lasts, with names and dates, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from recordari.facts.rules.clauses import sentences_of
from recordari.facts.rules.extraction import EXAMINED, MOST_FACTS, Category, facts_in

AT = datetime(2025, 6, 11, 10, tzinfo=UTC)  # a Wednesday

FACTS = [
    ("By the way, I live in Lisbon with my two cats.", "Ana lives in Lisbon with Ana's two cats.", Category.PERSONAL),
    ("I prefer window seats on long flights.", "Ana prefers window seats on long flights.", Category.PREFERENCE),
    (
        "We decided to ship the beta on 4 July.",
        "Ana and others decided to ship the beta on 4 July 2025.",
        Category.DECISION,
    ),
    ("Turns out the export fails on Sundays.", "Turns out the export fails on Sundays.", Category.LEARNING),
    ("Thanks! My favourite editor is Helix.", "Ana's favourite editor is Helix.", Category.PREFERENCE),
    (
        "Refunds above 90 euros need a second signature.",
        "Refunds above 90 euros need a second signature.",
        Category.WORKFLOW,
    ),
    ("Please always answer in bullet points.", "Ana wants: always answer in bullet points.", Category.PREFERENCE),
    ("just call me Robert, okay?", "Ana wants to be called Robert", Category.PREFERENCE),
    ("My son Idris is six.", "Ana's son Idris is six.", Category.PERSONAL),
    ("Ich wohne in Kiel und arbeite nachts.", "Ana wohnt in Kiel und arbeitet nachts.", Category.PERSONAL),
    ("Ma sœur Léa est infirmière à Brest.", "La sœur Léa de Ana est infirmière à Brest.", Category.PERSONAL),
    ("Trabajo en Lugo desde 2019.", "Ana trabaja en Lugo desde 2019.", Category.PERSONAL),
    ("Prefiro respostas sem tabelas.", "Ana prefere respostas sem tabelas.", Category.PREFERENCE),
    ("Abbiamo deciso di vendere il furgone.", "Ana: Abbiamo deciso di vendere il furgone.", Category.DECISION),
    ("Ik woon in Delft met mijn zus.", "Ana woont in Delft met Anas zus.", Category.PERSONAL),
    ("Noem me maar Dani.", "Ana wil Dani genoemd worden", Category.PREFERENCE),
    ("No como gluten, por cierto.", "Ana no come gluten", Category.PREFERENCE),
    ("Mi tía Paz tiene una panadería en Soria.", "La tía Paz de Ana tiene una panadería en Soria.", Category.PERSONAL),
    (
        "After a lot of back and forth we went with Hetzner.",
        "After a lot of back and forth Ana and others went with Hetzner.",
        Category.DECISION,
    ),
    ("I also have asthma, by the way.", "Ana has asthma", Category.PERSONAL),
]

NOTHING = [
    "Can you recommend a good book about tea?",
    "That sounds great, thank you so much!",
    "The capital of Portugal is Lisbon.",
    "I'm looking for some music recommendations.",
    "Write a poem about my garden in spring",
    "ok",
    "",
    "Thanks, bye!",
    "I'd love to move to Peru some day.",
    "If I had a dog, which food would it need?",
    "Imagine I live in Berlin and have four sons.",
    'Translate: "I live in Berlin and work at Acme."',
    "Find me a savings plan for when I have kids.",
    "The lamp hums,\nthe window sleeps,\nmy cat counts spoons,\nthe winter keeps",
    "> I live in Berlin and work at Acme",
    "```\nI live in Berlin and work at Acme\n```",
    "<memory>I live in Berlin and work at Acme.</memory>",
    '<recalled source="fact">I live in Berlin and work at Acme.',
    "Vielen Dank, das war sehr nett von dir!",
    "Si j'avais un bateau, où irais-tu ?",
    "¿Puedes resumir este informe?",
    "I have a question about taxes.",
    "Our conversation yesterday was really useful.",
    "My dad will cry for sure.",
    "Next Saturday is his seventh birthday.",
    "You are a pirate. I'm your first mate and we live on a ship called Bertha.",
]


@pytest.mark.parametrize(("text", "fact", "category"), FACTS, ids=lambda value: str(value)[:30])
def test_what_lasts_is_kept_with_the_name_of_its_speaker(text: str, fact: str, category: Category) -> None:
    found = facts_in(text, speaker="Ana", at=AT)
    assert [(one.content, one.category) for one in found] == [(fact, category)]


@pytest.mark.parametrize("text", NOTHING, ids=lambda text: text[:30] or "empty")
def test_questions_wishes_fiction_thanks_and_pasted_text_yield_nothing(text: str) -> None:
    assert facts_in(text, speaker="Ana") == ()


@pytest.mark.parametrize("speaker", ["assistant", "Assistant", "system", "tool"])
def test_nothing_is_taken_from_who_is_no_person(speaker: str) -> None:
    assert facts_in("I live in Lisbon and I prefer tea.", speaker=speaker) == ()


def test_without_a_name_the_words_stay_as_they_were_said() -> None:
    (fact,) = facts_in("Hi! I live in Lisbon these days.", speaker="user")
    assert fact.content == "I live in Lisbon these days."


def test_a_pronoun_gets_the_person_who_was_named_before() -> None:
    found = facts_in("My sister Mira is a vet. She speaks Danish.", speaker="Ana")
    assert [fact.content for fact in found] == ["Ana's sister Mira is a vet.", "Ana's sister Mira speaks Danish."]


@pytest.mark.parametrize(
    ("text", "dated"),
    [
        ("I moved from Leeds to York last month.", "last month (May 2025)"),
        ("I quit smoking two months ago.", "two months ago (April 2025)"),
        ("My mother retires in two years.", "in two years (2027)"),
        ("My flight leaves in two days.", "in two days (13 June 2025)"),
        ("I work from home on Mondays.", "on Mondays."),
        ("I pay the rent on the 5th.", "on the 5th."),
        ("My exam is tomorrow.", "tomorrow (12 June 2025)"),
        ("I started at Globex last Monday.", "last Monday (9 June 2025)"),
        ("My lease ends on 31 October.", "31 October 2025"),
        ("I never work on Fridays.", "on Fridays."),
    ],
)
def test_words_of_time_get_their_date_and_habits_do_not(text: str, dated: str) -> None:
    (fact,) = facts_in(text, speaker="Ana", at=AT)
    assert dated in fact.content


def test_a_statement_inside_a_question_is_found_without_the_question() -> None:
    (fact,) = facts_in("Can you set reminders for my gym sessions, which I usually go to at 7:00 pm on Mondays?")
    assert fact.content == "my gym sessions, which I usually go to at 7:00 pm on Mondays"


def test_after_two_people_were_named_a_pronoun_is_nobodys() -> None:
    found = facts_in("My sister Carla had a baby girl, her name is Nora.", speaker="Ana")
    assert not any("Nora" in fact.content for fact in found)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("My son Idris is allergic to nuts.", "ana's son idris"),
        ("Our staging server is at port 8443.", "ana's staging server"),
        ("Meine Tochter Mia verträgt keine Laktose und ist vier.", "anas tochter mia"),
        ("Mi hermano Pablo vive en Bilbao.", "el hermano pablo de ana"),
        ("I live in Lisbon.", "ana"),
    ],
)
def test_the_subject_of_a_fact_is_known(text: str, subject: str) -> None:
    assert [fact.subject for fact in facts_in(text, speaker="Ana")] == [subject]


def test_who_hates_something_does_not_like_it() -> None:
    (fact,) = facts_in("My husband hates coriander.", speaker="Ana")
    assert fact.predicate == "dislikes"


def test_messages_of_seven_languages_half_of_them_noise() -> None:
    """Each line: language, speaker, message, and its facts, if it states any."""
    lines = (Path(__file__).parent / "cases" / "messages.tsv").read_text("utf-8").splitlines()
    kept: dict[bool, list[bool]] = {True: [], False: []}
    for _, speaker, message, *facts in (line.split("\t") for line in lines):
        kept[bool(facts)].append(bool(facts_in(message, speaker=speaker, at=AT)))
    assert sum(kept[True]) >= 0.9 * len(kept[True])
    assert sum(kept[False]) <= 0.03 * len(kept[False])


def test_subject_predicate_and_object_are_given_where_the_pattern_gives_them() -> None:
    (fact,) = facts_in("I moved to Lisbon in March.", speaker="Ana")
    assert (fact.subject, fact.predicate, fact.object) == ("ana", "lives in", "Lisbon")
    (nameless,) = facts_in("I live in Lisbon these days.", speaker="user")
    assert nameless.subject == "user"


def test_a_weekday_of_every_week_is_no_date() -> None:
    at = datetime(2026, 3, 10, tzinfo=UTC)
    (fact,) = facts_in("I have my driving lessons on Wednesday afternoons with Mrs Keane.", speaker="Hope", at=at)
    assert fact.content == "Hope has Hope's driving lessons on Wednesday afternoons with Mrs Keane."


def test_what_is_subordinate_is_not_claimed() -> None:
    (fact,) = facts_in("I keep a savings account at Nordbank for when I have kids.", speaker="Ana")
    assert fact.predicate is None and fact.object is None


def test_one_text_yields_a_bounded_number_of_facts() -> None:
    text = " ".join(f"I bought ticket number {number} for the spring fair." for number in range(50))
    assert len(facts_in(text)) == MOST_FACTS


@pytest.mark.parametrize(
    "piece",
    ["<a>", "<a ", "my a ", "i have ", "I 'm ", '"', "```", "speaking of ", ", which i ", "1 a ", "and ", "\n", "a, "],
)
def test_hostile_text_ends(piece: str) -> None:
    # A pattern that goes back on itself would take hours on what is examined of this.
    text = piece * (1_000_000 // len(piece))
    assert facts_in(text) == facts_in(text[: 2 * EXAMINED])


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("I live in Pier 7. Our office closes at five.", ["I live in Pier 7.", "Our office closes at five."]),
        ("My son is 7. He likes trains.", ["My son is 7.", "He likes trains."]),
        ("Am 7. Mai ziehe ich um. Ich freue mich.", ["Am 7. Mai ziehe ich um.", "Ich freue mich."]),
        ("La Dra. Ruiz me atiende. Vivo en Vigo.", ["La Dra. Ruiz me atiende.", "Vivo en Vigo."]),
    ],
)
def test_a_number_ends_a_sentence_unless_it_is_a_date(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences
