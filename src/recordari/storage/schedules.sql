-- name: insert_schedules
-- When each job of this tenant runs first; nothing for those that are known.
INSERT INTO schedules (tenant_id, job, next_at)
SELECT %(tenant_id)s::uuid, job, next_at FROM unnest(%(jobs)s::text[], %(times)s::timestamptz[]) AS planned(job, next_at)
ON CONFLICT (tenant_id, job) DO NOTHING

-- name: insert_for_tenants
-- When one job of many tenants runs first; nothing for those that are known.
INSERT INTO schedules (tenant_id, job, next_at)
SELECT tenant_id, %(job)s::text, next_at
FROM unnest(%(tenants)s::uuid[], %(times)s::timestamptz[]) AS planned(tenant_id, next_at)
ON CONFLICT (tenant_id, job) DO NOTHING

-- name: tenants_without
-- Tenants that have a schedule, yet none for this job: it was added after they were.
SELECT DISTINCT tenant_id FROM schedules known
WHERE NOT EXISTS (SELECT FROM schedules s WHERE s.tenant_id = known.tenant_id AND s.job = %(job)s)
ORDER BY tenant_id LIMIT %(limit)s

-- name: try_lock_job
-- Let one process at a time start runs of a job, so that its limit holds.
SELECT pg_try_advisory_xact_lock(hashtextextended('recordari schedule ' || %(job)s::text, 0))

-- name: lock_due
-- Tenants whose job is due, longest overdue first.
SELECT tenant_id FROM schedules WHERE job = %(job)s AND next_at <= %(now)s
ORDER BY next_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: advance
-- Note that the job was started for these tenants, and when it is due next.
UPDATE schedules SET last_at = %(now)s, next_at = planned.next_at
FROM unnest(%(tenants)s::uuid[], %(times)s::timestamptz[]) AS planned(tenant_id, next_at)
WHERE schedules.job = %(job)s AND schedules.tenant_id = planned.tenant_id

-- name: next_due
-- The earliest time at which any of these jobs is due.
SELECT min(earliest.next_at) FROM unnest(%(jobs)s::text[]) AS job
CROSS JOIN LATERAL (SELECT s.next_at FROM schedules s WHERE s.job = job ORDER BY s.next_at LIMIT 1) earliest
