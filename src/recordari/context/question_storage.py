"""The rows of standing questions and of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.context.rules.questions import StandingQuestion
from recordari.core.identity import AgentId, UserId
from recordari.db.database import BatchedQuery, Transaction
from recordari.db.queries import Queries, all_as, columns_of, delegated

queries = Queries(__name__)

# What a recall or a context asks each time.
_ANSWERS_FOR_CONTEXT = delegated(queries.answers_for_context)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    question_id: UUID
    name: str
    agent_id: AgentId | None
    question: str
    changed_at: datetime

    @property
    def shown(self) -> StandingQuestion:
        return StandingQuestion(
            name=self.name, question=self.question, agent_id=self.agent_id, changed_at=self.changed_at
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    answer_id: UUID
    question_id: UUID
    user_id: UserId
    content: str
    sources: list[UUID]
    writer: str
    made_at: datetime
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueAnswer(QuestionRow):
    """An answer that has to be written again, with its question."""

    answer_id: UUID
    user_id: UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAnswer(QuestionRow):
    """A question with the answer that is kept for a user."""

    answer_id: UUID | None
    content: str
    made_at: datetime | None
    holds: bool
    """Whether it is kept, and all that it rests on is still so."""


def ask_answers(user_id: UserId, agent_id: AgentId | None) -> BatchedQuery[list[ShownAnswer]]:
    return BatchedQuery(_ANSWERS_FOR_CONTEXT, all_as(ShownAnswer), user_id=user_id, agent_id=agent_id)


async def save_question(tx: Transaction, question: QuestionRow) -> QuestionRow:
    (saved,) = await tx.all(queries.save_question, QuestionRow, **columns_of(question))
    return saved


async def count_questions(tx: Transaction) -> int:
    return int(await tx.value(queries.count_questions))


async def list_questions(tx: Transaction) -> list[QuestionRow]:
    return await tx.all(queries.list_questions, QuestionRow)


async def find_question(tx: Transaction, name: str, *, agent_id: str | None) -> QuestionRow | None:
    return await tx.maybe(queries.find_question, QuestionRow, name=name, agent_id=agent_id)


async def delete_question(tx: Transaction, name: str, *, agent_id: str | None) -> UUID | None:
    question_id: UUID | None = await tx.value(queries.delete_question, name=name, agent_id=agent_id)
    return question_id


async def find_answer(tx: Transaction, question_id: UUID, *, user_id: UserId) -> AnswerRow | None:
    return await tx.maybe(queries.find_answer, AnswerRow, question_id=question_id, user_id=user_id)


async def find_answers(tx: Transaction, answer_ids: Sequence[UUID]) -> list[DueAnswer]:
    return await tx.all(queries.find_answers, DueAnswer, answer_ids=list(answer_ids))


async def lock_sources(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(queries.lock_sources, item_ids=list(item_ids))]


async def save_answer(tx: Transaction, answer: AnswerRow) -> UUID:
    """Keep an answer. Returns its id, which stays the same as long as the question and the user do."""
    answer_id: UUID = await tx.value(queries.save_answer, **columns_of(answer))
    return answer_id
