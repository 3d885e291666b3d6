"""Background work: two tables that bind names to functions.

To add a job that runs for every tenant, write `async def f(resources, identity, **args) -> None` in its room and add a row to
`JOBS`. With `cron` it runs by schedule for each tenant; without, when `db.jobs.defer(tx, name, …)` enqueues it. The identity
is an administrator of the tenant, acting as `job:<name>`.

To add work that follows a write within milliseconds, write `async def f(resources, identity, batch) -> None` and add a row to
`TOPICS`. Writers call `db.outbox.add(tx, topic, ids)` in their transaction and `resources.wake(topic)` after it. The batch is a
sequence of those ids, all of one tenant.

Both run **at least once**: a worker can die between the effect and the note that it is done, so a function must do no harm
when it runs again. A handler that calls `db.outbox.done(tx, batch)` in the transaction of its effect has it exactly once.
Every exception uses up one try, except `ProviderError`, `Overloaded` and `DatabaseUnavailable` from a handler, because an
outage is not the fault of the work. No function keeps a transaction open while it waits for a provider.
"""

from __future__ import annotations

from recordari.context import profiles, questions
from recordari.core.items import EXTRACT_TOPIC, JUDGE_TOPIC
from recordari.databases import registry
from recordari.entries import entries
from recordari.events import follow, webhooks
from recordari.facts import copies, extract, judge
from recordari.knowledge import sync
from recordari.learning import consolidate, proposals, workflows
from recordari.lifetime import erase, retain
from recordari.memory import index, passages
from recordari.operations import answers, reports
from recordari.privacy import sanitise
from recordari.sessions import episodes, sessions, state, summaries
from recordari.sharing import share
from recordari.tenants import usage
from recordari.worker import jobs
from recordari.worker.dispatch import Job, Topic

AN_HOUR = 3_600.0  # for long jobs, and for a batch that a language model reads text by text
DERIVED = 0.5  # seconds in which what is derived gathers: one batch for the messages of many users
PROFILES = 5.0  # a reader who meets a profile that is out of date renews it, so that the job need not hurry
A_DAY = 86_400.0  # for a large tenant; a worker that dies is noticed by its missing heartbeat

JOBS: dict[str, Job] = {
    "housekeeping": Job(run=jobs.housekeeping, cron="0 2 * * *"),
    "close_idle_sessions": Job(run=sessions.close_idle, cron="30 2 * * *"),
    "embed_summaries": Job(run=summaries.embed_resting, cron="50 * * * *"),
    "prune_episodes": Job(run=episodes.prune_episodes, cron="0 3 * * 0"),
    "daily_brief": Job(run=reports.write_daily_brief, cron="0 6 * * *"),
    "sweep_state": Job(run=state.sweep, cron="15 * * * *"),
    "sweep_entries": Job(run=entries.sweep_entries, cron="45 * * * *"),
    "sweep_choices": Job(run=workflows.sweep_choices, cron="30 2 * * *"),
    "decay": Job(run=retain.decay, cron="0 4 * * *", timeout=AN_HOUR),
    "consolidate_sessions": Job(run=consolidate.consolidate_sessions, cron="40 * * * *", timeout=AN_HOUR),
    "review_memory": Job(run=proposals.review_memory, cron="30 4 * * 0", timeout=AN_HOUR),
    "reconcile_shares": Job(run=share.reconcile, cron="45 3 * * *"),
    "retain": Job(run=retain.retain, cron="0 5 * * *", timeout=AN_HOUR),
    "sweep_answers": Job(run=answers.sweep_answers, cron="45 * * * *"),
    "resume_webhooks": Job(run=webhooks.resume_webhooks, cron="20 * * * *"),
    "trim_events": Job(run=follow.trim_events, cron="45 3 * * *"),
    "refresh_databases": Job(run=registry.refresh_databases, cron="0 1 * * *", timeout=AN_HOUR),
    "measure_usage": Job(run=usage.measure, cron="30 5 * * *"),
    retain.JOB: Job(run=retain.collect_objects, cron="0 1 * * 6", timeout=AN_HOUR),
    erase.JOB: Job(run=erase.run_erasure, timeout=A_DAY),
    sync.JOB: Job(run=sync.run_sync, timeout=A_DAY),
    "reindex": Job(run=index.reindex, timeout=A_DAY),
    "reembed": Job(run=index.reembed, timeout=A_DAY),
    index.JOB: Job(run=index.maintain_when_quiet, cron="0 3 * * *", concurrency=2, timeout=AN_HOUR),
}

TOPICS: dict[str, Topic] = {
    # Batches take turns at one model: with long texts, on a machine that does other work too, minutes pass.
    index.EMBED_TOPIC: Topic(handle=index.embed, batch=index.FULL_BATCH, timeout=AN_HOUR, strikes_off=True),
    index.PASSAGES_TOPIC: Topic(handle=passages.cut_texts, batch=8, timeout=AN_HOUR, strikes_off=True),
    EXTRACT_TOPIC: Topic(handle=extract.extract, timeout=AN_HOUR, strikes_off=True, pause=DERIVED),
    JUDGE_TOPIC: Topic(handle=judge.judge, batch=20, timeout=600.0, strikes_off=True, pause=DERIVED),
    sanitise.END_COPIES_TOPIC: Topic(handle=copies.end_copies, timeout=AN_HOUR),
    summaries.SUMMARISE_TOPIC: Topic(handle=summaries.summarise, timeout=AN_HOUR, pause=DERIVED),
    webhooks.TOPIC: Topic(handle=webhooks.deliver, timeout=300.0),
    share.SHARE_TOPIC: Topic(handle=share.sync_copies),
    episodes.TRIM_TOPIC: Topic(handle=episodes.trim_episodes),
    profiles.PROFILE_TOPIC: Topic(handle=profiles.refresh_profiles, strikes_off=True, pause=PROFILES),
    questions.QUESTION_TOPIC: Topic(handle=questions.refresh_answers, timeout=AN_HOUR),
}
