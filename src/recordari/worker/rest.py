"""Background work: start it, list it, and replay dead letters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from recordari.db.jobs import DeadLetter, JobCounts, JobRecord, JobStatus, ScheduledJob
from recordari.events.follow import LOOK_SECONDS, STREAM_SECONDS
from recordari.events.rest import STREAM, event_text, stream_response, wants_stream
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    Cursor,
    Limit,
    Strict,
    client,
    number_position,
    page_of,
    paged,
    position,
)
from recordari.worker import jobs as jobs_verbs

router = APIRouter(prefix="/v1", tags=["jobs"], responses=PROBLEMS)

Status = Annotated[JobStatus | None, Query(description="Only jobs with this status.")]
JobId = Annotated[int, Path(ge=1, le=2**62)]
LetterId = Annotated[str, Path(max_length=100, description="Such as `job:17` or `outbox:17`.")]


class Started(BaseModel):
    """A started job; `GET /v1/jobs` shows its progress."""

    job: str = Field(examples=["reindex"])
    job_id: int | None = Field(description="Null: such a job waits already.")


class JobRequest(Strict):
    """The job to run."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"job": "measure_usage"}]})

    job: str = Field(min_length=1, max_length=100, description="Its name; a wrong one is answered with all names.")


class Replayed(BaseModel):
    """The number of dead letters that run again."""

    replayed: int


class ReembedRequest(Strict):
    """The embedding model to move to."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model_id": "memory-embedder"}]})

    model_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="Name of the model; the configured one by default."
    )


@router.post("/reindex", operation_id="start_reindex", openapi_extra=client(part="job_id"), status_code=202)
async def reindex(caller: AdminCaller) -> Started:
    """Derive every index column, vector and entity again from the rows, in the background."""
    return Started(job="reindex", job_id=await jobs_verbs.start_reindex(*caller))


@router.post("/reembed", operation_id="start_reembed", openapi_extra=client(part="job_id"), status_code=202)
async def reembed(caller: AdminCaller, request: ReembedRequest) -> Started:
    """Move to another embedding model, in the background; recall uses the old one until the end."""
    return Started(job="reembed", job_id=await jobs_verbs.start_reembed(*caller, model_id=request.model_id))


@router.get("/jobs", operation_id="list_jobs", **paged(JobRecord))
async def list_jobs(caller: AdminCaller, status: Status = None, limit: Limit = 50, cursor: Cursor = None) -> object:
    """List the jobs of the tenant, newest first."""
    jobs = await jobs_verbs.list_jobs(*caller, status=status, before=number_position(cursor), limit=limit + 1)
    return page_of(jobs, limit, lambda job: job.job_id)


@router.post("/jobs", operation_id="enqueue_job", openapi_extra=client(part="job_id"), status_code=202)
async def enqueue_job(caller: AdminCaller, request: JobRequest) -> Started:
    """Run a job of the tenant now, in the background."""
    return Started(job=request.job, job_id=await jobs_verbs.enqueue_job(*caller, request.job))


@router.get("/jobs/counts", operation_id="job_counts")
async def job_counts(caller: AdminCaller) -> JobCounts:
    """Count the background work: waiting, running, done and dead."""
    return await jobs_verbs.job_counts(*caller)


@router.get("/jobs/schedule", operation_id="job_schedule")
async def job_schedule(caller: AdminCaller) -> list[ScheduledJob]:
    """List the jobs that run by the clock, the next one first."""
    return await jobs_verbs.job_schedule(*caller)


@router.get("/jobs/dead_letters", operation_id="list_dead_letters", **paged(DeadLetter))
async def list_dead_letters(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """List work that failed at its last try."""
    letters = await jobs_verbs.list_dead_letters(*caller, after=position(cursor), limit=limit + 1)
    return page_of(letters, limit, lambda letter: letter.dead_letter_id)


@router.post("/jobs/dead_letters/replay", operation_id="replay_dead_letters", openapi_extra=client(part="replayed"))
async def replay_dead_letters(caller: AdminCaller) -> Replayed:
    """Run every dead letter again, with all its tries."""
    return Replayed(replayed=await jobs_verbs.replay_dead_letters(*caller))


@router.post("/jobs/dead_letters/{dead_letter_id}/replay", operation_id="replay_dead_letter", status_code=204)
async def replay_dead_letter(caller: AdminCaller, dead_letter_id: LetterId) -> None:
    """Run a dead letter again, with all its tries."""
    await jobs_verbs.replay_dead_letter(*caller, dead_letter_id)


@router.delete("/jobs/dead_letters/{dead_letter_id}", operation_id="discard_dead_letter", status_code=204)
async def discard_dead_letter(caller: AdminCaller, dead_letter_id: LetterId) -> None:
    """Discard a dead letter for good."""
    await jobs_verbs.discard_dead_letter(*caller, dead_letter_id)


@router.get(
    "/jobs/{job_id}", operation_id="get_job", response_model=JobRecord, responses={200: {"content": {STREAM: {}}}}
)
async def get_job(request: Request, caller: AdminCaller, job_id: JobId) -> object:
    """Return a job. With `Accept: text/event-stream` the answer is a stream of its changes until it ends."""
    job = await jobs_verbs.get_job(*caller, job_id)
    if not wants_stream(request):
        return job

    async def texts() -> AsyncGenerator[str, None]:
        last, end = "", time.monotonic() + STREAM_SECONDS
        while time.monotonic() < end:
            job = await jobs_verbs.get_job(*caller, job_id)
            text = to_json(job).decode()
            if text != last:
                yield event_text(text, event="job")
                last = text
            if job.status not in {JobStatus.TODO, JobStatus.DOING}:
                return
            await asyncio.sleep(LOOK_SECONDS)

    return stream_response(texts(), caller.identity.tenant_id)
