"""The embedding model that was trained on memories: what it finds near that shares no word, and what it keeps apart."""

from __future__ import annotations

import pytest
from tests.local_models import require_model

from recordari.models.inference import DenseEncoder
from recordari.models.pull import PROFILES

SAID = (
    "[2 March 2031] Joost: The kiln cracked again, that's the third glaze batch down the drain.",
    "[2 March 2031] Imke: Mum is out of hospital, she stays with us until the hip is healed.",
    "[9 March 2031] Joost: I swapped the van for an electric one, no more diesel for me.",
    "[9 March 2031] Imke: Lotte starts at the conservatory in September, viola!",
    "[16 March 2031] Joost: The bank turned me down, so my uncle lends me the eighteen thousand.",
    "[16 March 2031] Imke: We eat no meat on weekdays now, doctor's orders for Piet's cholesterol.",
    "[23 March 2031] Joost: The new studio is above the old bakery, ninety square metres.",
    "[23 March 2031] Imke: Piet ran the half marathon in under two hours, he is unbearable.",
)
ANSWERED = {
    "What went wrong with the pottery?": 0,
    "Who lives with Imke at the moment?": 1,
    "What does Joost drive?": 2,
    "Which instrument does Lotte play?": 3,
    "Who is financing Joost's business?": 4,
    "Why did Imke's family change their diet?": 5,
    "Where does Joost work now?": 6,
    "Is Piet a sportsman?": 7,
}
NOT_SAID = (
    "What is Lotte's birthday?",
    "How old is Joost's uncle?",
    "Which colour is the van?",
    "What does Imke do for a living?",
    "When does Piet see the dentist?",
)


@pytest.fixture(scope="module")
def encoder() -> DenseEncoder:
    return DenseEncoder(require_model(PROFILES["best"]))


@pytest.mark.parametrize("question", ANSWERED)
def test_what_answers_is_nearest(question: str, encoder: DenseEncoder) -> None:
    similarities = encoder.passages(SAID) @ encoder.query(question)
    assert int(similarities.argmax()) == ANSWERED[question]


def test_a_question_without_an_answer_is_farther_from_everything(encoder: DenseEncoder) -> None:
    """By one measure for all questions: the public model puts both kinds equally near."""
    said = encoder.passages(SAID)
    answered = [float((said @ encoder.query(question)).max()) for question in ANSWERED]
    farther = [float((said @ encoder.query(question)).max()) for question in NOT_SAID]
    pairs = [(near, far) for near in answered for far in farther]
    assert sum(near > far for near, far in pairs) / len(pairs) > 0.8
