"""How a tenant's memory fares, and how much of its plan it uses."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter
from pydantic import Field

from recordari.kit.rest import PROBLEMS, AdminMemory, Shown

router = APIRouter(prefix="/v1", tags=["stats"], responses=PROBLEMS)


class LimitsShown(Shown):
    """The limits of a plan; null: none."""

    items: int | None
    bytes: int | None
    writes_per_day: int | None


class UsageShown(Shown):
    """What is used of them."""

    items: int
    bytes: int
    writes: int
    day: date


class QuotaShown(Shown):
    """A tenant's limits and how much of them is used."""

    quota: LimitsShown
    usage: UsageShown
    shares: dict[str, float] = Field(description="Used part of each limit; 1 is all of it.")
    warnings: list[str]


class OthersShown(Shown):
    """What there is beside items."""

    vectors: int
    payloads: int
    payload_bytes: int
    open_sessions: int
    closed_sessions: int
    runs: int
    holds: int


class ReembeddingShown(Shown):
    """How far the move to another embedding model has come."""

    model_id: str
    done: int
    total: int
    switched: bool = Field(description="False: recall still uses the model before.")


class StatsShown(Shown):
    """The figures of a tenant's memory; what is counted by kind, tier and scope is live."""

    items: int
    by_state: dict[str, int] = Field(examples=[{"live": 120, "superseded": 4}])
    by_kind: dict[str, int] = Field(examples=[{"fact": 20, "chat_message": 100}])
    by_tier: dict[str, int]
    by_scope: dict[str, int]
    pinned: int
    content_bytes: int
    others: OthersShown
    pending_embeddings: int = Field(description="Items that are found by keyword and not yet by meaning.")
    embedding_model: str | None = Field(description="The model that recall uses; null until something is embedded.")
    reembedding: ReembeddingShown | None = Field(description="Not null while the tenant is moved to another model.")
    waiting: dict[str, int] = Field(description="Work that follows from writes, by topic.")
    dead_letters: int = Field(description="Work that was given up and waits for a person.")
    quota: QuotaShown


@router.get("/stats", operation_id="memory_stats", response_model=StatsShown)
async def memory_stats(memory: AdminMemory) -> object:
    """What memory holds, what waits, what was given up, how large it is."""
    return await memory.memory_stats()


@router.get("/quota", operation_id="quota_standing", response_model=QuotaShown)
async def quota_standing(memory: AdminMemory) -> object:
    """How much of its plan the tenant uses."""
    return await memory.quota_standing()
