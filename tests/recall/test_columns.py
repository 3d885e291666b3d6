"""Columns that are made from those before are the same as columns that are made anew."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest

from recordari.core import text
from recordari.core.identity import AskedScope, Scope
from recordari.core.items import Trust
from recordari.memory.rules import Collection, asked_by, traits_of
from recordari.recall.rules import candidates
from recordari.recall.rules.arms import marked
from recordari.recall.rules.candidates import Columns, Tokens
from recordari.recall.rules.numbering import Candidate, SearchHits
from recordari.recall.rules.ranking import Question, Ranked, Weights, ranked

BEGAN = datetime(2026, 5, 2, tzinfo=UTC)
WORDS = "kayak violin bakery greenhouse printer tandem loom telescope".split()
NAMES = ("ana", "boris", "carla")


def row(number: int, chance: random.Random) -> Candidate:
    session = chance.choice(["s1", "s2", None])
    words = chance.sample(WORDS, chance.randrange(5))
    return Candidate(
        item_id=UUID(int=number),
        scope=Scope.SESSION if session and chance.random() < 0.5 else Scope.USER,
        thread=f"user:ana\x1f{session}" if session else None,
        position=number if session else None,
        speaker=chance.choice([None, "Ana", "Boris"]),
        trust=chance.choice([Trust.USER, Trust.AGENT]),
        event_time=BEGAN + timedelta(days=number % 5),
        terms=text.hashes(words).tobytes(),
        tokens=np.array([len(word) for word in words], dtype="<u2").tobytes(),
        traits=chance.randrange(8),
        session_id=session,
        archived_at=chance.choice([None, BEGAN]),
        is_fact=session is None and chance.random() < 0.5,
        names=chance.sample(NAMES, chance.randrange(3)),
    )


def same_groups(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two numberings tell the same rows apart."""
    return bool(((one[:, None] == one) == (other[:, None] == other)).all())


def test_rows_that_are_known_are_taken_over() -> None:
    chance = random.Random(7)
    rows = [row(number, chance) for number in range(30)]
    columns = Columns(rows=rows)
    for number in range(30, 60):
        kept = chance.sample(range(len(rows)), chance.randrange(1, len(rows) + 1))
        if chance.random() < 0.5:
            kept = sorted(kept)
        added = [row(number * 100 + one, chance) for one in range(chance.randrange(4))]
        places = [*kept, *[-1] * len(added)]
        mixed = chance.sample(range(len(places)), len(places))
        places = [places[place] for place in mixed]
        fresh = iter(added)
        rows = [rows[place] if place >= 0 else next(fresh) for place in places]
        columns, anew = Columns(rows=rows, known=(columns, np.array(places))), Columns(rows=rows)
        for name in ("moments", "lengths", "is_fact", "is_alone", "is_users", "is_archived", "asks", "before", "after"):
            assert np.array_equal(getattr(columns, name), getattr(anew, name)), name
        assert same_groups(columns.threads, anew.threads) and same_groups(columns.sessions, anew.sessions)
        assert {name: found.tolist() for name, found in columns.speakers.items()} == {
            name: found.tolist() for name, found in anew.speakers.items()
        }
        for word in WORDS:
            (term,) = text.terms(word)
            assert np.array_equal(columns.counts([term]), anew.counts([term]))
        for term in ("may", "2026", "ana"):
            assert [found.tolist() for found in columns.dated(term)] == [found.tolist() for found in anew.dated(term)]
        for name in NAMES:
            assert np.array_equal(columns.naming(name), anew.naming(name))
        weights = {AskedScope.USER: 0.5, AskedScope.SESSION: 2.0, AskedScope.HISTORY: 0.25}
        assert np.array_equal(columns.by_place(weights, ["s1"]), anew.by_place(weights, ["s1"]))


def ranking(columns: Columns, hits: SearchHits, query: str, tokens: Tokens) -> list[Ranked]:
    terms = text.terms(query)
    return ranked(
        Question(
            terms=terms,
            words=frozenset(query.split()),
            wording=asked_by(query),
            interval=None,
            tokens=tokens,
            calibration=None,
        ),
        columns,
        hits,
        Collection(items=1_000, mean_length=3.0, frequencies=dict.fromkeys(terms, 20)),
        weights=Weights(),
        scope_weights={AskedScope.USER: 1.1, AskedScope.SESSION: 1.3},
        line=["s1"],
        limit=15,
        explained=True,
    )


def test_of_many_rows_only_those_found_are_computed_with_and_the_scores_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance, vectors = random.Random(11), np.random.default_rng(11)
    unit = vectors.normal(size=(16, 8)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for number in range(20):
        rows = [row(number * 1_000 + one, chance) for one in range(80)]
        wanted = chance.sample(WORDS, 3)
        tokens = Tokens(
            ids=np.array([4, 6, 7]), words=text.terms(" ".join(wanted)), unit=unit, norms=np.ones(16, np.float32)
        )
        found = np.array(sorted(chance.sample(range(80), 25)))
        hits = SearchHits(
            hits=found,
            similarity=np.array([chance.choice([chance.random(), np.nan]) for _ in rows]),
            entity=marked(80, found[::3]),
            linked=marked(80, found[::9]),
        )
        query = f"where does ana now keep the {' '.join(wanted)}"
        whole = ranking(Columns(rows=rows), hits, query, tokens)
        with monkeypatch.context() as large:
            large.setattr(candidates, "LARGE", 40)
            columns = Columns(rows=rows)
            part = ranking(columns, hits, query, tokens)
            assert not columns.kept_bytes  # no line of all rows
        assert [(one.row, one.candidate) for one in part] == [(one.row, one.candidate) for one in whole]
        for one, other in zip(part, whole, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-6) and one.parts == other.parts


def test_what_is_long_gone_is_not_kept() -> None:
    chance = random.Random(3)
    rows = [row(number, chance) for number in range(4)]
    columns = Columns(rows=rows)
    for number in range(10, 3_000):
        rows = [*rows[1:], row(number, chance)]
        columns = Columns(rows=rows, known=(columns, np.array([1, 2, 3, -1])))
    assert columns.threads.max() < 1_100
    assert np.array_equal(columns.after, Columns(rows=rows).after)


def test_a_record_without_a_speaker_discloses_nothing() -> None:
    said = row(1, random.Random(1))._replace(speaker="Ana", traits=int(traits_of("I love my new kayak.")))
    columns = Columns(rows=[said, said._replace(item_id=UUID(int=2), speaker=None)])
    assert columns.disclosure[0] > 0
    assert columns.disclosure[1] == 0


def test_a_text_is_quoted_by_itself_or_by_its_many_first_words() -> None:
    spoken = [f"word{number}" for number in range(30)]
    rows = [
        row(number, random.Random(number))._replace(terms=text.hashes(words).tobytes())
        for number, words in enumerate((spoken, spoken[1:], spoken[:5]))
    ]
    columns = Columns(rows=rows)
    assert columns.are_verbatim(spoken).tolist() == [True, False, False]
    assert columns.are_verbatim([*spoken[:14], "cu"]).tolist() == [True, False, False]
    assert columns.are_verbatim(spoken[:5]).tolist() == [False, False, True]
