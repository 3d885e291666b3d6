"""The offline summariser: nothing in a summary was not said, and what was decided is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.core.items import Trust
from recordari.core.tokens import estimated_tokens
from recordari.sessions.rules.sessions import NoteKind
from recordari.sessions.rules.summaries import Said, notes_in, quoted, rolled_summary

CONVERSATION = [
    Said(speaker="user", trust=Trust.USER, content="Hi! Thanks for joining."),
    Said(
        speaker="user", trust=Trust.USER, content="The Lisbon launch slipped to 14 March because the venue cancelled."
    ),
    Said(speaker="assistant", trust=Trust.AGENT, content="Understood. Which venue could take the launch instead?"),
    Said(
        speaker="user",
        trust=Trust.USER,
        content="We decided to go with the Belém hall for the Lisbon launch. It seats 300 people.",
    ),
    Said(
        speaker="assistant",
        trust=Trust.AGENT,
        content="I will send the contract for the Belém hall to Marta by Friday.",
    ),
    Said(speaker="user", trust=Trust.USER, content="ok"),
]


def test_a_summary_keeps_what_matters_and_drops_small_talk() -> None:
    summary = rolled_summary("", CONVERSATION, most_tokens=80)
    assert "decided to go with the Belém hall" in summary
    assert "Thanks for joining" not in summary and "user: ok" not in summary


def test_of_an_agent_only_the_conclusion_is_kept() -> None:
    advice = (
        "What an exciting plan! Generally a good picnic needs three things:\n\n1. **Food** in boxes of 2 litres\n2. A "
        "blanket\n\n"
        "I have booked the meadow in Sundby for 4 June at 14:00. It is important to bring water. Let me know if you need more!"
    )
    said = [
        Said(speaker="Ida", trust=Trust.USER, content="We are 23 people and Tove cannot eat gluten."),
        Said(speaker="Ida", trust=Trust.USER, content="Can you book the meadow in Sundby?"),
        Said(speaker="assistant", trust=Trust.AGENT, content=advice),
    ]
    summary = rolled_summary("", said)
    assert "23 people and Tove cannot eat gluten" in summary and "booked the meadow in Sundby for 4 June" in summary
    for boilerplate in ("exciting", "Generally", "Food", "blanket", "important", "Let me know"):
        assert boilerplate not in summary


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("The survey is done. Method is kriging. Well 17 is broken.", "Method is kriging."),
        ("bone-in then", "bone-in then"),
        ("Wir ziehen am 30. April um.", "am 30. April um."),
        ("dr. Pham can do it on December 9", "dr. Pham can do it on December 9"),
        ("the card expired on October 31. security blocked it.", "security blocked it."),
        ("母は足が悪いです。1階の部屋をお願いしました。", "1階の部屋をお願いしました。"),
    ],
)
def test_short_statements_dates_and_abbreviations_stay_whole(words: str, kept: str) -> None:
    said = [Said(speaker="user", trust=Trust.USER, content=words)]
    summary = rolled_summary("", said)
    assert any(kept in line for line in summary.splitlines()), summary


@pytest.mark.parametrize(
    ("asked", "answer", "kept", "dropped"),
    [
        (
            "Was kosten zwei Zonen zu 60 Euro?",
            "Zwei Zonen kosten 120 Euro. In der Regel solltest du früh buchen. Viel Erfolg!",
            "120 Euro",
            "früh buchen",
        ),
        (
            "Combien coûtent deux nuits à 29 euros ?",
            "Deux nuits coûtent 58 euros. Il est conseillé de réserver tôt.",
            "58 euros",
            "conseillé",
        ),
        ("What is 9:30 times 2?", "That makes 19:00. You might also stretch for 15 minutes.", "19:00", "stretch"),
    ],
)
def test_an_answer_with_a_number_is_kept_and_the_advice_after_it_is_not(
    asked: str, answer: str, kept: str, dropped: str
) -> None:
    said = [
        Said(speaker="user", trust=Trust.USER, content=asked),
        Said(speaker="assistant", trust=Trust.AGENT, content=answer),
    ]
    summary = rolled_summary("", said)
    assert kept in summary and dropped not in summary


def test_one_long_message_does_not_take_the_whole_summary() -> None:
    pasted = " ".join(f"Line {n} of the pasted report has the value {n * 37}." for n in range(1, 40))
    said = [
        Said(speaker="user", trust=Trust.USER, content="My sister moves in next week and brings her dog."),
        Said(speaker="user", trust=Trust.USER, content=pasted),
        Said(speaker="user", trust=Trust.USER, content="We talked about it and she takes the small room."),
    ]
    summary = rolled_summary("", said, most_tokens=200)
    assert "brings her dog" in summary and "takes the small room" in summary


def test_agents_never_crowd_out_people() -> None:
    said = [Said(speaker="user", trust=Trust.USER, content="My access code for the lab in Graz ends on 9 May.")]
    said += [
        Said(
            speaker="assistant",
            trust=Trust.AGENT,
            content=f"I have sent report {n} about Site {n} to Carla on {n} June.",
        )
        for n in range(1, 30)
    ]
    summary = rolled_summary("", said, most_tokens=150)
    assert "lab in Graz" in summary
    assert estimated_tokens("\n".join(line for line in summary.splitlines() if line.startswith("- assistant"))) <= 50


def test_a_summary_rolls_on_without_its_sources() -> None:
    first = rolled_summary("", CONVERSATION[:4], most_tokens=120)
    second = rolled_summary(first, CONVERSATION[4:], most_tokens=120)
    assert "Belém hall for the Lisbon launch" in second and "contract" in second
    points = second.splitlines()
    assert points.index(next(one for one in points if "decided" in one)) < points.index(
        next(one for one in points if "contract" in one)
    )


def test_the_same_said_twice_is_one_point() -> None:
    said = [Said(speaker="user", trust=Trust.USER, content="The invoice number is INV-4711 for the Oslo order.")] * 3
    assert rolled_summary("", said).count("INV-4711") == 1


@pytest.mark.parametrize(
    ("speaker", "trust", "shown"),
    [
        ("user", Trust.USER, "user: yes"),
        ("assistant", Trust.AGENT, "assistant: yes"),
        ("Ana", Trust.USER, "Ana (user): yes"),
        ("user", Trust.EXTERNAL, "user (external): yes"),
        ("external", Trust.EXTERNAL, "external: yes"),
        ("user: fine (user)", Trust.TOOL, "user fine user (tool): yes"),
        ("user\n- user", Trust.DOCUMENT, "user - user (document): yes"),
        (" ::", Trust.DOCUMENT, "document: yes"),
    ],
)
def test_a_quoted_line_tells_the_speaker_and_the_trust_and_no_name_can_pretend_another(
    speaker: str, trust: Trust, shown: str
) -> None:
    assert quoted(Said(speaker=speaker, content="yes", trust=trust)) == shown


said_by = st.builds(
    Said, speaker=st.sampled_from(["user", "assistant"]), trust=st.sampled_from(Trust), content=st.text(max_size=300)
)


@given(st.lists(said_by, max_size=12), st.integers(5, 200))
def test_a_summary_keeps_its_budget_and_invents_nothing(said: list[Said], budget: int) -> None:
    summary = rolled_summary("", said, most_tokens=budget)
    assert estimated_tokens(summary) <= budget + 1
    for line in summary.splitlines():
        point = line.removeprefix("- ")
        assert any(
            point.startswith(quoted(replace(one, content=""))) and bare(point.partition(": ")[2]) in bare(one.content)
            for one in said
        )


def bare(text: str) -> str:
    """A text without the marks and the space that a summary leaves out."""
    return "".join(character for character in text if character.isalnum())


@given(st.lists(said_by, max_size=8))
def test_summarising_is_deterministic(said: list[Said]) -> None:
    assert rolled_summary("", said) == rolled_summary("", list(said))


@pytest.mark.parametrize(
    "sentence",
    [
        "We decided to use Postgres for the ledger.",
        "Let's go with the blue logo.",
        "The team agreed to postpone the release until June.",
        "Decision: no work on weekends.",
        "It's settled, Marta leads the project.",
    ],
)
def test_a_decision_is_noted(sentence: str) -> None:
    (noted,) = notes_in(f"Good morning. {sentence}")
    assert noted.kind is NoteKind.DECISION and noted.content == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "I will send the contract to Marta by Friday.",
        "TODO: renew the certificate.",
        "Please book the flight to Oslo.",
        "You need to update the dashboard before Monday.",
        "Remind me to call the bank.",
        "Can you schedule a meeting with Ana?",
    ],
)
def test_an_action_item_is_noted(sentence: str) -> None:
    (noted,) = notes_in(sentence)
    assert noted.kind is NoteKind.ACTION_ITEM and noted.content == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "I love the sea in winter.",
        "What did you decide?",
        "The weather is nice today.",
        "She went to the market yesterday.",
        "That will be fun!",
    ],
)
def test_small_talk_is_not_noted(sentence: str) -> None:
    assert notes_in(sentence) == []


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Wir haben beschlossen, das Büro in Ulm zu kündigen.", NoteKind.DECISION),
        ("Ich schicke dir den Vertrag bis Freitag.", NoteKind.ACTION_ITEM),
        ("On a décidé de garder le fournisseur.", NoteKind.DECISION),
        ("Il faut renouveler le passeport avant juin.", NoteKind.ACTION_ITEM),
        ("Hemos decidido cambiar de proveedor.", NoteKind.DECISION),
        ("Voy a llamar al banco mañana.", NoteKind.ACTION_ITEM),
        ("Decidimos adiar o lançamento do produto.", NoteKind.DECISION),
        ("Vou enviar o contrato amanhã.", NoteKind.ACTION_ITEM),
        ("Abbiamo deciso di tenere il fornitore.", NoteKind.DECISION),
        ("Domani mando la fattura al cliente.", NoteKind.ACTION_ITEM),
        ("We hebben besloten om te verhuizen.", NoteKind.DECISION),
        ("Kun je de zaal boeken voor dinsdag?", NoteKind.ACTION_ITEM),
    ],
)
def test_decisions_and_tasks_are_noted_in_other_languages(sentence: str, kind: NoteKind) -> None:
    (noted,) = notes_in(sentence)
    assert noted.kind is kind and noted.content == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "Ich muss jetzt los.",
        "Ich würde dir gern eine Karte schicken.",
        "Quel beau temps aujourd'hui !",
        "¿Qué tal estás hoy?",
        "Che bella giornata!",
        "Lekker weer vandaag!",
    ],
)
def test_small_talk_in_other_languages_is_not_noted(sentence: str) -> None:
    assert notes_in(sentence) == []


def test_a_deadline_makes_a_task_more_important() -> None:
    (plain,) = notes_in("I will send the contract.")
    (urgent,) = notes_in("I will send the contract by Friday.")
    assert urgent.importance > plain.importance


@pytest.mark.parametrize("hostile", ["a" * 200_000, "i will " * 30_000, "- " * 50_000, "\n" * 100_000, "!? " * 60_000])
def test_hostile_text_is_read_in_a_moment(hostile: str) -> None:
    assert len(notes_in(hostile)) <= 5
    assert estimated_tokens(rolled_summary("", [Said(speaker="user", trust=Trust.USER, content=hostile)])) <= 501
