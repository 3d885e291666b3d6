"""Background work: starting it, seeing it, and giving what failed another chance."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from recollect.domain.jobs import DeadLetterKind, JobStatus
from recollect.entry.rest.access import AdminMemory
from recollect.entry.rest.models import PROBLEMS, Limit, Page, Shown, Strict

router = APIRouter(prefix="/v1", tags=["jobs"], responses=PROBLEMS)

Status = Annotated[JobStatus | None, Query(description="Only jobs that stand here.")]
LetterId = Annotated[str, Path(max_length=100, description="Such as `job:17` or `outbox:17`.")]


class JobShown(Shown):
    """A job of the tenant."""

    job_id: int
    job: str = Field(examples=["reindex"])
    status: JobStatus
    attempts: int
    scheduled_at: datetime | None
    last_at: datetime | None
    args: dict[str, Any]
    last_error: str | None


class DeadLetterShown(Shown):
    """Work that was given up after its last try."""

    dead_letter_id: str = Field(examples=["outbox:17"])
    kind: DeadLetterKind
    name: str = Field(examples=["embed"])
    attempts: int
    last_error: str | None
    failed_at: datetime | None
    ref: UUID | None = Field(description="The item it is about, where it is about one.")


class Started(BaseModel):
    """Work that will be done in the background; `GET /v1/jobs` shows how it goes."""

    job: str = Field(examples=["reindex"])
    job_id: int | None = Field(description="Null: such a job waits already, and does it.")


class ReembedRequest(Strict):
    """Which embedding model to move to."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model_id": "e5-small-v2"}]})

    model_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="Name of the model; the configured one, if left out."
    )


@router.post("/reindex", operation_id="reindex", response_model=Started, status_code=202)
async def reindex(memory: AdminMemory) -> Started:
    """Derive every index column, vector and entity again from the rows, in the background."""
    return Started(job="reindex", job_id=await memory.start_reindex())


@router.post("/reembed", operation_id="reembed", response_model=Started, status_code=202)
async def reembed(memory: AdminMemory, wanted: ReembedRequest) -> Started:
    """Move to another embedding model, in the background; recall uses the old one until all is done."""
    return Started(job="reembed", job_id=await memory.start_reembed(model_id=wanted.model_id))


@router.get("/jobs", operation_id="list_jobs", response_model=Page[JobShown])
async def list_jobs(memory: AdminMemory, status: Status = None, limit: Limit = 50) -> object:
    """The tenant's jobs, newest first."""
    return {"items": await memory.list_jobs(status=status, limit=limit), "next_cursor": None}


@router.get("/jobs/dead_letters", operation_id="list_dead_letters", response_model=Page[DeadLetterShown])
async def list_dead_letters(memory: AdminMemory, limit: Limit = 50) -> object:
    """What was given up after its last try and waits for a person."""
    return {"items": await memory.list_dead_letters(limit=limit), "next_cursor": None}


@router.post("/jobs/dead_letters/{dead_letter_id}/replay", operation_id="replay_dead_letter", status_code=204)
async def replay_dead_letter(memory: AdminMemory, dead_letter_id: LetterId) -> None:
    """Give a dead letter all its tries back."""
    await memory.replay_dead_letter(dead_letter_id)


@router.delete("/jobs/dead_letters/{dead_letter_id}", operation_id="discard_dead_letter", status_code=204)
async def discard_dead_letter(memory: AdminMemory, dead_letter_id: LetterId) -> None:
    """Give a dead letter up for good."""
    await memory.discard_dead_letter(dead_letter_id)
