"""Background work: starting it, seeing it, and giving what failed another chance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from recordari.db.jobs import DeadLetter, JobCounts, JobRecord, JobStatus
from recordari.events.follow import LOOK_SECONDS, STREAM_SECONDS
from recordari.events.rest import STREAM, event_text, streamed, wants_stream
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    Cursor,
    Limit,
    Page,
    Strict,
    client,
    number_position,
    page_of,
    position,
)
from recordari.worker import jobs as jobs_verbs

router = APIRouter(prefix="/v1", tags=["jobs"], responses=PROBLEMS)

Status = Annotated[JobStatus | None, Query(description="Only jobs that stand here.")]
JobId = Annotated[int, Path(ge=1, le=2**62)]
LetterId = Annotated[str, Path(max_length=100, description="Such as `job:17` or `outbox:17`.")]


class Started(BaseModel):
    """Work that will be done in the background; `GET /v1/jobs` shows how it goes."""

    job: str = Field(examples=["reindex"])
    job_id: int | None = Field(description="Null: such a job waits already, and does it.")


class JobRequest(Strict):
    """Which job to run."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"job": "measure_usage"}]})

    job: str = Field(min_length=1, max_length=100, description="Its name; a wrong one is answered with all names.")


class Replayed(BaseModel):
    """How many dead letters got their tries back."""

    replayed: int


class ReembedRequest(Strict):
    """Which embedding model to move to."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model_id": "e5-small-v2"}]})

    model_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="Name of the model; the configured one, if left out."
    )


@router.post(
    "/reindex",
    operation_id="start_reindex",
    openapi_extra=client(part="job_id"),
    status_code=202,
)
async def reindex(caller: AdminCaller) -> Started:
    """Derive every index column, vector and entity again from the rows, in the background."""
    return Started(job="reindex", job_id=await jobs_verbs.start_reindex(*caller))


@router.post(
    "/reembed",
    operation_id="start_reembed",
    openapi_extra=client(part="job_id"),
    status_code=202,
)
async def reembed(caller: AdminCaller, wanted: ReembedRequest) -> Started:
    """Move to another embedding model, in the background; recall uses the old one until all is done."""
    return Started(job="reembed", job_id=await jobs_verbs.start_reembed(*caller, model_id=wanted.model_id))


@router.get("/jobs", operation_id="list_jobs", openapi_extra=client(part="items"), response_model=Page[JobRecord])
async def list_jobs(caller: AdminCaller, status: Status = None, limit: Limit = 50, cursor: Cursor = None) -> object:
    """The tenant's jobs, newest first."""
    found = await jobs_verbs.list_jobs(*caller, status=status, before=number_position(cursor), limit=limit + 1)
    return page_of(found, limit, lambda job: job.job_id)


@router.post("/jobs", operation_id="enqueue_job", openapi_extra=client(part="job_id"), status_code=202)
async def enqueue_job(caller: AdminCaller, wanted: JobRequest) -> Started:
    """Run a job of the tenant now instead of at its time, in the background."""
    return Started(job=wanted.job, job_id=await jobs_verbs.enqueue_job(*caller, wanted.job))


@router.get("/jobs/counts", operation_id="job_counts")
async def job_counts(caller: AdminCaller) -> JobCounts:
    """How much work waits, runs, is done and was given up."""
    return await jobs_verbs.job_counts(*caller)


@router.get(
    "/jobs/dead_letters",
    operation_id="list_dead_letters",
    openapi_extra=client(part="items"),
    response_model=Page[DeadLetter],
)
async def list_dead_letters(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """What was given up after its last try and waits for a person."""
    found = await jobs_verbs.list_dead_letters(*caller, after=position(cursor), limit=limit + 1)
    return page_of(found, limit, lambda letter: letter.dead_letter_id)


@router.post(
    "/jobs/dead_letters/replay",
    operation_id="replay_dead_letters",
    openapi_extra=client(part="replayed"),
)
async def replay_dead_letters(caller: AdminCaller) -> Replayed:
    """Give every dead letter its tries back."""
    return Replayed(replayed=await jobs_verbs.replay_dead_letters(*caller))


@router.post("/jobs/dead_letters/{dead_letter_id}/replay", operation_id="replay_dead_letter", status_code=204)
async def replay_dead_letter(caller: AdminCaller, dead_letter_id: LetterId) -> None:
    """Give a dead letter all its tries back."""
    await jobs_verbs.replay_dead_letter(*caller, dead_letter_id)


@router.delete("/jobs/dead_letters/{dead_letter_id}", operation_id="discard_dead_letter", status_code=204)
async def discard_dead_letter(caller: AdminCaller, dead_letter_id: LetterId) -> None:
    """Give a dead letter up for good."""
    await jobs_verbs.discard_dead_letter(*caller, dead_letter_id)


@router.get(
    "/jobs/{job_id}", operation_id="get_job", response_model=JobRecord, responses={200: {"content": {STREAM: {}}}}
)
async def get_job(request: Request, caller: AdminCaller, job_id: JobId) -> object:
    """One job. With `Accept: text/event-stream` the answer tells each change of it until it is over."""
    job = await jobs_verbs.get_job(*caller, job_id)
    if not wants_stream(request):
        return job

    async def told() -> AsyncIterator[str]:
        seen, end = "", time.monotonic() + STREAM_SECONDS
        while time.monotonic() < end:
            found = await jobs_verbs.get_job(*caller, job_id)
            shown = to_json(found).decode()
            if shown != seen:
                yield event_text(shown, event="job")
                seen = shown
            if found.status not in {JobStatus.TODO, JobStatus.DOING}:
                return
            await asyncio.sleep(LOOK_SECONDS)

    return StreamingResponse(streamed(told()), media_type=STREAM, headers={"Cache-Control": "no-store"})
