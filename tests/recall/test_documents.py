"""What the other chunks of a document are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recordari.recall.request import Arm
from recordari.recall.rules.ranking import Features, Weights, weighed
from recordari.recall.search import weights_of

EVERY_ARM = frozenset(Arm)


def features(words: list[float], threads: list[int]) -> Features:
    many = len(words)
    return Features(
        words=np.array(words),
        late=np.zeros(many),
        meaning=np.zeros(many),
        threads=np.array(threads),
        sessions=np.array(threads),
        after=np.full(many, -1),
        moments=np.zeros(many),
        is_turn=np.ones(many, dtype=np.bool_),
        present=0.0,
        priors={},
    )


def test_a_document_with_more_that_fits_comes_before_one_with_a_single_chunk() -> None:
    # Document 0 has one chunk that fits a little better; of document 1 three fit; the others are about something else.
    found = features([0.52, 0.1, 0.5, 0.45, 0.4, 0.1, 0.1, 0.1, 0.1], [0, 0, 1, 1, 1, 2, 3, 4, 5])
    scores = sum(weighed(found, weights_of(EVERY_ARM, documents=True)).values(), np.zeros(9))
    assert scores.argmax() == 2
    alone = replace(weights_of(EVERY_ARM, documents=True), others=0.0)
    assert sum(weighed(found, alone).values(), np.zeros(9)).argmax() == 0


def test_the_sentences_of_a_long_question_are_not_answered_by_whole_documents() -> None:
    found = features([0.52, 0.1, 0.5, 0.45, 0.4, 0.1, 0.1, 0.1, 0.1], [0, 0, 1, 1, 1, 2, 3, 4, 5])
    weights = weights_of(EVERY_ARM, documents=True, is_part=True)
    assert sum(weighed(found, weights).values(), np.zeros(9)).argmax() == 0


def test_messages_are_not_ranked_by_how_much_of_their_session_fits() -> None:
    assert Weights().others == 0
    assert weights_of(EVERY_ARM).others == 0
    assert "others" not in weighed(features([0.5, 0.4], [0, 0]), Weights())
