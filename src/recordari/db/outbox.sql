-- name: add_entries
-- Work to do after this transaction commits, one row for each reference.
INSERT INTO outbox (topic, tenant_id, ref)
SELECT %(topic)s::text, %(tenant_id)s::uuid, ref FROM unnest(%(refs)s::uuid[]) AS ref
RETURNING 1

-- name: claim_fresh
-- Lease rows without a try of the next few tenants after `after`, or of the first ones if there is none after it; hops from tenant to
-- tenant in the index. A lost lease is only taken again, so that this transaction need not wait for the disk.
WITH RECURSIVE unhurried AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), walk AS (
    SELECT COALESCE(
        (SELECT o.tenant_id FROM outbox o
         WHERE o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts = 0 AND o.tenant_id > %(after)s
         ORDER BY o.tenant_id LIMIT 1),
        (SELECT o.tenant_id FROM outbox o
         WHERE o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts = 0 ORDER BY o.tenant_id LIMIT 1)) AS tenant_id
    UNION ALL
    SELECT following.tenant_id
    FROM walk CROSS JOIN LATERAL (
        SELECT o.tenant_id FROM outbox o
        WHERE o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts = 0 AND o.tenant_id > walk.tenant_id
        ORDER BY o.tenant_id LIMIT 1
    ) following
), due AS (
    -- Not EXISTS: the planner would turn it into a join that reads the whole backlog.
    SELECT walk.tenant_id FROM walk CROSS JOIN LATERAL (
        SELECT 1 FROM outbox o
        WHERE o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts = 0 AND o.tenant_id = walk.tenant_id
            AND o.not_before <= now()
        LIMIT 1
    ) has_due
    LIMIT %(tenants)s
), locked AS (
    SELECT picked.outbox_id FROM due CROSS JOIN LATERAL (
        SELECT o.outbox_id FROM outbox o
        WHERE o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts = 0 AND o.tenant_id = due.tenant_id
            AND o.not_before <= now()
        ORDER BY o.not_before LIMIT %(size)s FOR UPDATE SKIP LOCKED
    ) picked
)
UPDATE outbox SET attempts = 1, not_before = now() + %(lease)s::interval, last_error = 'Crashed'
FROM locked, unhurried WHERE outbox.outbox_id = locked.outbox_id
RETURNING outbox.outbox_id, outbox.tenant_id, outbox.ref, outbox.attempts

-- name: claim_tried
-- Lease one row that failed or crashed before, of the next tenant after `after` that has any.
WITH RECURSIVE walk AS (
    (SELECT tenant_id FROM outbox
     WHERE topic = %(topic)s AND parked_at IS NULL AND attempts > 0 AND tenant_id > %(after)s
     ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT following.tenant_id
    FROM walk CROSS JOIN LATERAL (
        SELECT o.tenant_id FROM outbox o
        WHERE o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts > 0 AND o.tenant_id > walk.tenant_id
        ORDER BY o.tenant_id LIMIT 1
    ) following
), locked AS (
    SELECT picked.outbox_id FROM walk CROSS JOIN LATERAL (
        SELECT o.outbox_id FROM outbox o
        WHERE o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts > 0 AND o.tenant_id = walk.tenant_id
            AND o.not_before <= now() AND o.attempts < %(budget)s
        ORDER BY o.not_before LIMIT 1 FOR UPDATE SKIP LOCKED
    ) picked
    LIMIT 1
)
UPDATE outbox SET attempts = attempts + 1, not_before = now() + %(lease)s::interval, last_error = 'Crashed'
FROM locked WHERE outbox.outbox_id = locked.outbox_id
RETURNING outbox.outbox_id, outbox.tenant_id, outbox.ref, outbox.attempts

-- name: park_exhausted
-- Give up rows whose worker died in their last try.
UPDATE outbox SET parked_at = now()
WHERE outbox_id IN (
    SELECT outbox_id FROM outbox
    WHERE topic = %(topic)s AND parked_at IS NULL AND attempts > 0 AND attempts >= %(budget)s AND not_before <= now()
    FOR UPDATE SKIP LOCKED)

-- name: fresh_tenants
-- On a cluster: the next few tenants after `after` that have rows without a try.
SELECT DISTINCT tenant_id FROM outbox
WHERE topic = %(topic)s AND parked_at IS NULL AND attempts = 0 AND not_before <= now() AND tenant_id > %(after)s
ORDER BY tenant_id LIMIT %(tenants)s

-- name: claim_fresh_of
-- On a cluster: lease rows of one tenant without a try.
UPDATE outbox SET attempts = 1, not_before = now() + %(lease)s::interval, last_error = 'Crashed'
WHERE tenant_id = %(of)s AND outbox_id IN (
    SELECT o.outbox_id FROM outbox o
    WHERE o.tenant_id = %(of)s AND o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts = 0 AND o.not_before <= now()
    ORDER BY o.not_before LIMIT %(size)s FOR UPDATE SKIP LOCKED)
RETURNING outbox_id, tenant_id, ref, attempts

-- name: tried_tenants
-- On a cluster: the next tenants after `after` that have rows which failed or crashed before.
SELECT DISTINCT tenant_id FROM outbox
WHERE topic = %(topic)s AND parked_at IS NULL AND attempts > 0 AND attempts < %(budget)s AND not_before <= now()
    AND tenant_id > %(after)s
ORDER BY tenant_id LIMIT 8

-- name: claim_tried_of
-- On a cluster: lease one row of a tenant that failed or crashed before.
UPDATE outbox SET attempts = attempts + 1, not_before = now() + %(lease)s::interval, last_error = 'Crashed'
WHERE tenant_id = %(of)s AND outbox_id IN (
    SELECT o.outbox_id FROM outbox o
    WHERE o.tenant_id = %(of)s AND o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts > 0 AND o.attempts < %(budget)s
        AND o.not_before <= now()
    ORDER BY o.not_before LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING outbox_id, tenant_id, ref, attempts

-- name: exhausted_tenants
-- On a cluster: tenants with rows whose worker died in their last try.
SELECT DISTINCT tenant_id FROM outbox
WHERE topic = %(topic)s AND parked_at IS NULL AND attempts > 0 AND attempts >= %(budget)s AND not_before <= now()

-- name: park_exhausted_of
-- On a cluster: give up such rows of one tenant.
UPDATE outbox SET parked_at = now()
WHERE tenant_id = %(of)s AND outbox_id IN (
    SELECT o.outbox_id FROM outbox o
    WHERE o.tenant_id = %(of)s AND o.topic = %(topic)s AND o.parked_at IS NULL AND o.attempts > 0 AND o.attempts >= %(budget)s
        AND o.not_before <= now()
    FOR UPDATE SKIP LOCKED)

-- name: renew_leases_of
-- On a cluster: extend the leases of one tenant's rows in work.
UPDATE outbox SET not_before = now() + %(lease)s::interval
WHERE tenant_id = %(of)s AND outbox_id = ANY(%(ids)s) AND attempts = %(attempts)s

-- name: make_due
-- What is put off for longer than anything ever is was written before the clock was set back: it is due now.
UPDATE outbox SET not_before = now() WHERE parked_at IS NULL AND not_before > now() + %(longest)s::interval

-- name: renew_leases
-- Extend the leases of rows in work, without waiting for the disk.
WITH unhurried AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
UPDATE outbox SET not_before = now() + %(lease)s::interval
FROM unhurried, unnest(%(ids)s::bigint[], %(attempts)s::integer[]) AS held(outbox_id, attempts)
WHERE outbox.outbox_id = held.outbox_id AND outbox.attempts = held.attempts

-- name: delete_done
-- Delete finished rows; returns how many of them another worker holds by now.
WITH before AS MATERIALIZED (
    SELECT count(*) AS entries FROM outbox WHERE tenant_id = %(tenant_id)s AND outbox_id = ANY(%(ids)s)
), deleted AS (
    DELETE FROM outbox
    WHERE tenant_id = %(tenant_id)s AND outbox_id = ANY(%(ids)s) AND attempts = %(attempts)s AND parked_at IS NULL
    RETURNING outbox_id
)
SELECT (SELECT entries FROM before) - (SELECT count(*) FROM deleted)

-- name: fail_entries
-- Record a failed try: due again after the delay, or parked when the budget is used up.
UPDATE outbox SET
    last_error = %(error)s,
    not_before = now() + %(delay)s::interval,
    parked_at = CASE WHEN attempts >= %(budget)s THEN (SELECT now()) END
WHERE tenant_id = %(tenant_id)s AND outbox_id = ANY(%(ids)s) AND attempts = %(attempts)s AND parked_at IS NULL

-- name: postpone_entries
-- Record an outage, which is no fault of the rows: not counted, due again after half their age, parked after long patience.
UPDATE outbox SET
    attempts = attempts - 1,
    last_error = %(error)s,
    not_before = shifted((SELECT now()), GREATEST(LEAST(EXTRACT(epoch FROM (SELECT now()) - created_at) / 2,
        EXTRACT(epoch FROM %(longest)s::interval)), EXTRACT(epoch FROM %(shortest)s::interval))::double precision),
    parked_at = CASE WHEN created_at < (SELECT now() - %(patience)s::interval) THEN (SELECT now()) END
WHERE tenant_id = %(tenant_id)s AND outbox_id = ANY(%(ids)s) AND attempts = %(attempts)s AND parked_at IS NULL

-- name: release_entries
-- Release rows that are not finished, because this worker stops.
UPDATE outbox SET attempts = attempts - 1, last_error = NULL, not_before = now()
WHERE tenant_id = %(tenant_id)s AND outbox_id = ANY(%(ids)s) AND attempts = %(attempts)s AND parked_at IS NULL

-- name: count_pending
-- How many rows of one topic the tenant has, dead letters included.
SELECT count(*) FROM outbox WHERE tenant_id = %(tenant_id)s AND topic = %(topic)s

-- name: is_waiting
-- Whether the tenant has rows of these topics.
SELECT EXISTS (SELECT 1 FROM outbox WHERE tenant_id = %(tenant_id)s AND topic = ANY(%(topics)s)) AS is_waiting

-- name: count_by_topic
-- Rows that wait and dead letters, by topic.
SELECT topic, count(*) FILTER (WHERE parked_at IS NULL) AS pending, count(*) FILTER (WHERE parked_at IS NOT NULL) AS parked
FROM outbox WHERE tenant_id = %(tenant_id)s GROUP BY topic

-- name: list_parked
-- Dead letters, newest first.
SELECT 'outbox' AS kind, outbox_id AS number, topic AS name, attempts, last_error, parked_at AS failed_at, ref FROM outbox
WHERE tenant_id = %(tenant_id)s AND parked_at IS NOT NULL AND outbox_id < %(before)s ORDER BY outbox_id DESC LIMIT %(limit)s

-- name: replay_parked
-- Give an entry its tries back.
UPDATE outbox SET attempts = 0, last_error = NULL, parked_at = NULL, created_at = now(), not_before = now()
WHERE tenant_id = %(tenant_id)s AND outbox_id = %(outbox_id)s AND parked_at IS NOT NULL RETURNING topic

-- name: replay_all_parked
-- Give every dead letter its tries back.
UPDATE outbox SET attempts = 0, last_error = NULL, parked_at = NULL, created_at = now(), not_before = now()
WHERE tenant_id = %(tenant_id)s AND parked_at IS NOT NULL RETURNING topic

-- name: discard_parked
-- Delete a dead letter.
DELETE FROM outbox WHERE tenant_id = %(tenant_id)s AND outbox_id = %(outbox_id)s AND parked_at IS NOT NULL

-- name: backlog
-- Over all tenants: work that waits (counted up to a limit), the age of the oldest in seconds, and dead letters.
SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE parked_at IS NULL LIMIT %(most)s) o)::float AS waiting,
    COALESCE((SELECT EXTRACT(epoch FROM now() - o.created_at) FROM outbox o WHERE o.parked_at IS NULL ORDER BY o.outbox_id LIMIT 1), 0)::float
        AS oldest_seconds,
    (SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL)::float AS dead_letters,
    (SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now()))::float AS jobs_waiting,
    (SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed')::float AS jobs_failed

-- name: notify
-- Wake the workers of other processes.
SELECT pg_notify('recordari_outbox', %(payload)s)

-- name: listen
-- Listen for work of other processes.
LISTEN recordari_outbox

-- name: probe
-- Check that the connection works.
SELECT 1
