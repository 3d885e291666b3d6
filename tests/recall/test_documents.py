"""What the other chunks of a document are worth, and by what the sentences of a long question are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
from tests.working import settled

from recordari.app import Memory
from recordari.core.identity import Identity, Role, Scope
from recordari.core.items import Trust
from recordari.kit.resources import Resources
from recordari.memory.rules import Collection, asked_by
from recordari.models.embedding import Embedders
from recordari.recall.request import Arm
from recordari.recall.rules.candidates import Columns, Tokens
from recordari.recall.rules.numbering import Candidate, SearchHits
from recordari.recall.rules.ranking import CALIBRATIONS, Features, Question, Weights, features_of, weighed
from recordari.recall.search import weights_of
from recordari.tenants import tenants

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


def chunk(number: int, tokens: list[int]) -> Candidate:
    return Candidate(
        item_id=UUID(int=number),
        scope=Scope.TENANT,
        thread=f"document {number}",
        position=0,
        speaker=None,
        trust=Trust.USER,
        event_time=datetime(2026, 5, 2, tzinfo=UTC),
        terms=b"",
        tokens=np.array(tokens, dtype="<u2").tobytes(),
        traits=0,
        session_id=None,
        archived_at=None,
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


def test_the_sentences_of_a_long_question_are_compared_by_the_vectors_of_tokens() -> None:
    # Tokens 1 and 2 are nearly the same, 3 is something else; the model's vectors say the opposite.
    table = np.array([[1, 1, 1], [1, 0, 0], [1, 0.1, 0], [0, 0, 2]], dtype=np.float32)
    norms = np.linalg.norm(table, axis=1)
    tokens = Tokens(ids=np.array([1]), words=["card"], unit=table / norms[:, None], norms=norms)
    columns = Columns(rows=[chunk(0, [2]), chunk(1, [3]), chunk(2, [2, 3]), chunk(3, [])])
    found = SearchHits(
        hits=np.arange(4),
        similarity=np.array([0.1, 0.9, 0.5, 0.1]),
        entity=np.zeros(4, dtype=np.bool_),
        linked=np.zeros(4, dtype=np.bool_),
    )
    asked = Question(
        terms=[],
        words=frozenset(),
        wording=asked_by("Which card?"),
        interval=None,
        tokens=tokens,
        calibration=CALIBRATIONS["potion-base-8M"],
    )
    collection = Collection(items=4, mean_length=1.0, frequencies={})
    by_model = features_of(asked, columns, found, collection, Weights()).meaning
    assert by_model.argsort().tolist()[2:] == [2, 1]
    by_tokens = features_of(replace(asked, by_tokens=True), columns, found, collection, Weights()).meaning
    assert by_tokens.argmax() == 0 and by_tokens[2] > by_tokens[1]
    # The middle one has a short and a long vector: cos((1, 0, 0), (1, 0.1, 2)).
    expected = (np.array([1 / np.sqrt(1.01), 0.0, 1 / np.sqrt(5.01), 0.0]) - 0.26) / (4 * 0.13)
    assert np.allclose(by_tokens, expected, atol=1e-5)


class Same:
    """An embedder for which every text means the same."""

    model_id = "same@1"
    dimensions = 16

    async def embed_query(self, text: str) -> np.ndarray:
        return np.full(self.dimensions, 0.25, dtype=np.float32)

    async def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        return np.full((len(texts), self.dimensions), 0.25, dtype=np.float32)

    async def close(self) -> None:
        pass


async def test_a_long_question_goes_by_tokens_where_the_model_has_other_vectors(resources: Resources) -> None:
    working = replace(resources, embedders=Embedders(Same(), lambda _: None))
    tenant = await tenants.ensure_tenant(working, "handbook")
    memory = Memory(working, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))
    for topic in ("the limit of a card", "parcels and postage", "gardening in spring"):
        await memory.add_document(f"{topic}.md", text=f"What to know about {topic}.")
    await settled(memory)
    asked = "Hello, I have been a customer for years and travel a lot. " * 9
    question = (
        f"{asked} Can I raise the limit of it? When do I plant the tulips? What does a letter cost? Thanks a lot."
    )

    async def meanings(query: str) -> dict[str, float]:
        trace = (await memory.search_knowledge(query, explain=True)).trace
        assert trace is not None
        part = next((one for one in trace.get("parts", ()) if "tulips" in one["query"]), trace)
        names = {str(item.id): item.content for item in (await memory.search_knowledge(query, top_k=20)).items}
        return {names[one["id"]]: one["parts"]["meaning"] for one in part["items"]}

    of_part = await meanings(question)
    assert max(of_part, key=lambda content: of_part[content]) == "What to know about gardening in spring."
    assert len(set(of_part.values())) == 3
    assert len(set((await meanings("When do I plant the tulips?")).values())) == 1, "a short question goes by the model"
