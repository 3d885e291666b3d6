-- name: defer_job
-- A job in the transaction of the change that causes it; nothing when one with the same queueing lock waits already.
INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
VALUES (%(job)s, %(job)s, %(priority)s, %(lock)s, %(queueing_lock)s,
    %(args)s::jsonb || jsonb_build_object('tenant_id', %(tenant_id)s::uuid), %(schedule_at)s)
ON CONFLICT (queueing_lock) WHERE status = 'todo' DO NOTHING
RETURNING id

-- name: defer_for_tenants
-- One job for each of these tenants that has none of that name waiting or running.
INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
SELECT %(job)s::text, %(job)s::text, CASE WHEN %(exclusive)s::boolean THEN %(job)s::text || ':' || tenant_id END,
    %(job)s::text || ':' || tenant_id, jsonb_build_object('tenant_id', tenant_id)
FROM unnest(%(tenants)s::uuid[]) AS tenant_id
WHERE NOT EXISTS (
    SELECT 1 FROM procrastinate_jobs j
    WHERE j.status IN ('todo', 'doing') AND j.task_name = %(job)s::text AND j.args ->> 'tenant_id' = tenant_id::text)
ON CONFLICT (queueing_lock) WHERE status = 'todo' DO NOTHING

-- name: count_open
-- How many jobs of that name run or could run now, over all tenants.
SELECT count(*) FROM procrastinate_jobs
WHERE status IN ('todo', 'doing') AND task_name = %(job)s
    AND (status = 'doing' OR scheduled_at IS NULL OR scheduled_at <= now())

-- name: finish_job
-- Close a job that this worker still holds.
UPDATE procrastinate_jobs
SET status = %(status)s::procrastinate_job_status, attempts = attempts + 1, abort_requested = false
WHERE id = %(job_id)s AND status = 'doing' AND worker_id = %(worker_id)s
RETURNING id

-- name: retry_job
-- Put back a job that this worker still holds; without its queueing lock, which another waiting job may have by now.
UPDATE procrastinate_jobs
SET status = 'todo', attempts = attempts + 1, scheduled_at = %(retry_at)s::timestamptz, queueing_lock = NULL,
    worker_id = NULL, abort_requested = false
WHERE id = %(job_id)s AND status = 'doing' AND worker_id = %(worker_id)s
RETURNING id

-- name: resume_stalled
-- Take jobs from workers whose heartbeat stopped and notify the others; the crash counts as a try.
WITH stalled AS (
    SELECT j.id, limits.budget, row_number() OVER (ORDER BY j.id) - 1 AS position
    FROM procrastinate_jobs j
    JOIN unnest(%(jobs)s::text[], %(budgets)s::integer[]) AS limits(job, budget) ON limits.job = j.task_name
    WHERE j.status = 'doing' AND j.id IN (
        SELECT d.id FROM procrastinate_jobs d
        WHERE d.status = 'doing' AND NOT EXISTS (
            SELECT 1 FROM procrastinate_workers w
            -- A heartbeat in the future is one from before the clock was set back.
            WHERE w.id = d.worker_id
                AND w.last_heartbeat BETWEEN now() - %(silence)s::interval AND now() + %(silence)s::interval)
        FOR UPDATE SKIP LOCKED)
), resumed AS (
    UPDATE procrastinate_jobs j SET
        status = (CASE WHEN j.attempts + 1 >= stalled.budget THEN 'failed' ELSE 'todo' END)::procrastinate_job_status,
        attempts = j.attempts + 1,
        -- Behind the others, and from the second crash on at separate times: a job that ran beside one that kills its
        -- worker must not run beside it again until it is given up as well.
        priority = j.priority - 1,
        scheduled_at = CASE WHEN j.attempts > 0 THEN now() + stalled.position * interval '5 seconds' END,
        queueing_lock = NULL, worker_id = NULL, abort_requested = false
    FROM stalled WHERE j.id = stalled.id
    RETURNING j.id, j.task_name, j.status, j.attempts
), noted AS (
    INSERT INTO job_failures (job_id, error) SELECT id, 'Crashed' FROM resumed
    ON CONFLICT (job_id) DO UPDATE SET error = excluded.error, failed_at = now()
)
SELECT id AS job_id, task_name AS job, status::text, attempts,
    pg_notify('procrastinate_queue_v1#' || task_name, json_build_object('type', 'job_inserted', 'job_id', id)::text)::text AS notified
FROM resumed

-- name: forget_workers
-- Delete workers whose heartbeat stopped long ago.
DELETE FROM procrastinate_workers WHERE last_heartbeat < now() - %(silence)s::interval

-- name: record_failure
-- Why a job failed the last time.
INSERT INTO job_failures (job_id, error)
SELECT j.id, %(error)s::text FROM procrastinate_jobs j
WHERE j.id = %(job_id)s AND j.args ->> 'tenant_id' = %(tenant_id)s::uuid::text
ON CONFLICT (job_id) DO UPDATE SET error = excluded.error, failed_at = now()

-- name: list_jobs
-- The tenant's jobs, newest first.
SELECT j.id AS job_id, j.task_name AS job, j.status::text, j.attempts, j.scheduled_at, j.args - 'tenant_id' AS args,
    f.error AS last_error, (SELECT max(e.at) FROM procrastinate_events e WHERE e.job_id = j.id AND e.type <> 'scheduled') AS last_at
FROM procrastinate_jobs j LEFT JOIN job_failures f ON f.job_id = j.id
WHERE j.args ->> 'tenant_id' = %(tenant_id)s::uuid::text AND j.id < %(before)s ORDER BY j.id DESC LIMIT %(limit)s

-- name: list_jobs_by_status
-- The tenant's jobs of one status, newest first.
SELECT j.id AS job_id, j.task_name AS job, j.status::text, j.attempts, j.scheduled_at, j.args - 'tenant_id' AS args,
    f.error AS last_error, (SELECT max(e.at) FROM procrastinate_events e WHERE e.job_id = j.id AND e.type <> 'scheduled') AS last_at
FROM procrastinate_jobs j LEFT JOIN job_failures f ON f.job_id = j.id
WHERE j.args ->> 'tenant_id' = %(tenant_id)s::uuid::text AND j.status = %(status)s::procrastinate_job_status
    AND j.id < %(before)s
ORDER BY j.id DESC LIMIT %(limit)s

-- name: find_job
-- One job of the tenant.
SELECT j.id AS job_id, j.task_name AS job, j.status::text, j.attempts, j.scheduled_at, j.args - 'tenant_id' AS args,
    f.error AS last_error, (SELECT max(e.at) FROM procrastinate_events e WHERE e.job_id = j.id AND e.type <> 'scheduled') AS last_at
FROM procrastinate_jobs j LEFT JOIN job_failures f ON f.job_id = j.id
WHERE j.args ->> 'tenant_id' = %(tenant_id)s::uuid::text AND j.id = %(job_id)s

-- name: list_failed
-- The tenant's jobs that were given up, newest first.
SELECT 'job' AS kind, j.id AS number, j.task_name AS name, j.attempts, f.error AS last_error, f.failed_at
FROM procrastinate_jobs j LEFT JOIN job_failures f ON f.job_id = j.id
WHERE j.args ->> 'tenant_id' = %(tenant_id)s::uuid::text AND j.status = 'failed' AND j.id < %(before)s
ORDER BY j.id DESC LIMIT %(limit)s

-- name: count_jobs
-- The tenant's jobs by status.
SELECT status::text, count(*) AS number FROM procrastinate_jobs
WHERE args ->> 'tenant_id' = %(tenant_id)s::uuid::text GROUP BY status

-- name: replay_failed
-- Give a job its tries back, and notify the workers.
WITH replayed AS (
    UPDATE procrastinate_jobs
    SET status = 'todo', attempts = 0, scheduled_at = NULL, queueing_lock = NULL, worker_id = NULL
    WHERE id = %(job_id)s AND status = 'failed' AND args ->> 'tenant_id' = %(tenant_id)s::uuid::text
    RETURNING id, queue_name
)
SELECT id, pg_notify('procrastinate_queue_v1#' || queue_name, json_build_object('type', 'job_inserted', 'job_id', id)::text)
FROM replayed

-- name: replay_all_failed
-- Give every failed job of the tenant its tries back.
UPDATE procrastinate_jobs
SET status = 'todo', attempts = 0, scheduled_at = NULL, queueing_lock = NULL, worker_id = NULL
WHERE status = 'failed' AND args ->> 'tenant_id' = %(tenant_id)s::uuid::text

-- name: discard_failed
-- Give a job up for good.
DELETE FROM procrastinate_jobs
WHERE id = %(job_id)s AND status = 'failed' AND args ->> 'tenant_id' = %(tenant_id)s::uuid::text

-- name: delete_finished
-- Delete the tenant's jobs that ended long ago; failed ones stay longer, for a person to see.
DELETE FROM procrastinate_jobs j
WHERE j.args ->> 'tenant_id' = %(tenant_id)s::uuid::text AND j.status NOT IN ('todo', 'doing')
    AND NOT EXISTS (
        SELECT 1 FROM procrastinate_events e
        WHERE e.job_id = j.id
            AND e.at > CASE WHEN j.status = 'failed' THEN %(failed_before)s::timestamptz ELSE %(before)s::timestamptz END)

-- name: insert_schedules
-- When each job of this tenant runs first; those already planned stay.
INSERT INTO schedules (tenant_id, job, next_at)
SELECT %(tenant_id)s::uuid, job, next_at FROM unnest(%(jobs)s::text[], %(times)s::timestamptz[]) AS planned(job, next_at)
ON CONFLICT (tenant_id, job) DO NOTHING
RETURNING 1

-- name: insert_for_tenants
-- When one job of many tenants runs first; those already planned stay.
INSERT INTO schedules (tenant_id, job, next_at)
SELECT tenant_id, %(job)s::text, next_at
FROM unnest(%(tenants)s::uuid[], %(times)s::timestamptz[]) AS planned(tenant_id, next_at)
ON CONFLICT (tenant_id, job) DO NOTHING
RETURNING 1

-- name: list_schedules
-- When each job of this tenant ran last and runs next, the next one first.
SELECT job, next_at, last_at FROM schedules WHERE tenant_id = %(tenant_id)s AND job = ANY(%(jobs)s) ORDER BY next_at, job

-- name: tenants_without
-- Tenants that have a schedule, but none for this job: it was added later.
SELECT DISTINCT tenant_id FROM schedules planned
WHERE NOT EXISTS (SELECT 1 FROM schedules s WHERE s.tenant_id = planned.tenant_id AND s.job = %(job)s)
ORDER BY tenant_id LIMIT %(limit)s

-- name: try_lock_job
-- Let one process at a time start runs of a job, so that its limit holds.
SELECT pg_try_advisory_xact_lock(hashtextextended('recordari schedule ' || %(job)s::text, 0))

-- name: lock_due
-- Tenants whose job is due, longest overdue first.
SELECT tenant_id FROM schedules WHERE job = %(job)s AND next_at <= %(now)s
ORDER BY next_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: advance
-- Record that the job was started for these tenants, and when it is due next.
UPDATE schedules SET last_at = %(now)s, next_at = planned.next_at
FROM unnest(%(tenants)s::uuid[], %(times)s::timestamptz[]) AS planned(tenant_id, next_at)
WHERE schedules.job = %(job)s AND schedules.tenant_id = planned.tenant_id

-- name: next_due
-- The earliest time at which any of these jobs is due.
SELECT min(earliest.next_at) FROM unnest(%(jobs)s::text[]) AS job
CROSS JOIN LATERAL (SELECT s.next_at FROM schedules s WHERE s.job = job ORDER BY s.next_at LIMIT 1) earliest
