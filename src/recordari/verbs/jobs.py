"""Background work: what runs, what failed, and indexes made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recordari.db.jobs import DeadLetter, JobCounts, JobRecord, JobStatus
from recordari.memory import index
from recordari.memory.index import Reembedding
from recordari.verbs.bound import Bound
from recordari.worker import jobs


class JobVerbs(Bound):
    """The verbs of jobs and reindexing."""

    async def enqueue_job(self, job: str, **args: Any) -> int | None:
        """Run a job of the tenant now, in the background; None when it waits already."""
        return await jobs.enqueue(self.resources, self.identity, job, **args)

    async def list_jobs(
        self, *, status: JobStatus | None = None, before: int | None = None, limit: int = 50
    ) -> list[JobRecord]:
        """List the tenant's jobs, newest first."""
        return await jobs.list_jobs(self.resources, self.identity, status=status, before=before, limit=limit)

    async def get_job(self, job_id: int) -> JobRecord:
        """One job of the tenant."""
        return await jobs.get_job(self.resources, self.identity, job_id)

    async def job_counts(self) -> JobCounts:
        """Count the work that waits, runs, is done and was given up."""
        return await jobs.job_counts(self.resources, self.identity)

    async def list_dead_letters(self, *, after: str | None = None, limit: int = 50) -> list[DeadLetter]:
        """List the work that was given up after its last try."""
        return await jobs.list_dead_letters(self.resources, self.identity, after=after, limit=limit)

    async def replay_dead_letter(self, dead_letter_id: str) -> None:
        """Give a dead letter all its tries back."""
        await jobs.replay(self.resources, self.identity, dead_letter_id)

    async def replay_dead_letters(self) -> int:
        """Give every dead letter its tries back."""
        return await jobs.replay_all(self.resources, self.identity)

    async def discard_dead_letter(self, dead_letter_id: str) -> None:
        """Give a dead letter up for good."""
        await jobs.discard(self.resources, self.identity, dead_letter_id)

    async def reindex(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Derive index columns, vectors and entities again from the rows."""
        return await index.reindex(self.resources, self.identity, progress=progress)

    async def start_reindex(self) -> int | None:
        """Derive everything again in the background; the job's id, None when one waits already."""
        return await self.enqueue_job("reindex")

    async def reembed(
        self, *, model_id: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Reembedding:
        """Move to another embedding model while recall goes on."""
        return await index.reembed(self.resources, self.identity, model_id=model_id, progress=progress)

    async def start_reembed(self, *, model_id: str | None = None) -> int | None:
        """Move to another embedding model in the background; the job's id, None when one waits already."""
        index.find_embedder(self.resources, model_id)
        return await self.enqueue_job("reembed", model_id=model_id)
