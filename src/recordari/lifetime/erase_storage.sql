-- name: start_erasure
-- Begin to erase a user, or find the erasure that runs; from now on nothing older of that user is written.
WITH named AS (
    SELECT erasure_hash(salt, 'user', %(user_id)s) AS hash FROM tenants WHERE tenant_id = %(tenant_id)s
), buried AS (
    INSERT INTO tombstones (tenant_id, hash, subject, is_final, forgotten_at)
    SELECT %(tenant_id)s::uuid, hash, 'user', false, now() FROM named
    ON CONFLICT (tenant_id, hash) DO UPDATE SET forgotten_at = excluded.forgotten_at
)
INSERT INTO erasures (tenant_id, erasure_id, user_hash, user_id, requested_at, start_xid)
SELECT %(tenant_id)s, %(erasure_id)s, hash, %(user_id)s, now(), pg_current_xact_id() FROM named
ON CONFLICT (tenant_id, user_hash) WHERE finished_at IS NULL DO UPDATE SET
    requested_at = excluded.requested_at, start_xid = excluded.start_xid
RETURNING erasure_id, user_id, user_hash, requested_at, items, sessions, finished_at

-- name: find_erasure
-- One erasure.
SELECT erasure_id, user_id, user_hash, requested_at, items, sessions, finished_at FROM erasures
WHERE tenant_id = %(tenant_id)s AND erasure_id = %(erasure_id)s

-- name: count_held
-- How many items of a user actions hold.
SELECT count(DISTINCT h.item_id) FROM holds h JOIN items i ON i.tenant_id = h.tenant_id AND i.item_id = h.item_id
WHERE h.tenant_id = %(tenant_id)s AND i.user_id = %(user_id)s

-- name: has_older_writers
-- Whether a transaction that began to write before the erasure may still commit.
SELECT pg_snapshot_xmin(pg_current_snapshot()) <= start_xid FROM erasures
WHERE tenant_id = %(tenant_id)s AND erasure_id = %(erasure_id)s

-- name: list_items
-- Items of a user, and what nobody else said in the user's sessions; some at a time.
(SELECT item_id FROM items
 WHERE tenant_id = %(tenant_id)s AND scope = ANY('{session,user,agent,tenant}') AND user_id = %(user_id)s
    AND anonymized_at IS NULL AND (created_at <= %(before)s OR event_time <= %(before)s) LIMIT %(limit)s)
UNION
(SELECT i.item_id FROM sessions s JOIN items i ON i.tenant_id = s.tenant_id AND i.thread = 'session:' || s.session_id
 WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.opened_at <= %(before)s AND i.user_id IS NULL
    AND i.anonymized_at IS NULL AND i.created_at <= %(before)s LIMIT %(limit)s)

-- name: unplace_items
-- Remove rows that were redacted earlier from the user's threads.
UPDATE items i SET thread = NULL, position = NULL FROM sessions s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.opened_at <= %(before)s
    AND i.tenant_id = s.tenant_id AND i.thread = 'session:' || s.session_id AND i.anonymized_at IS NOT NULL

-- name: list_sessions
-- Sessions of a user with the runs in them, some at a time.
SELECT s.session_id, s.session_ref, ARRAY(
    SELECT r.run_id FROM runs r WHERE r.tenant_id = s.tenant_id AND r.session_id = s.session_id) AS run_ids
FROM sessions s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.opened_at <= %(before)s
ORDER BY s.session_ref LIMIT %(limit)s

-- name: list_runs
-- Runs of a user in sessions of others.
SELECT run_id FROM runs WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND started_at <= %(before)s

-- name: delete_runs
-- Remove runs with their turns, calls and state, and their ids from what stays.
WITH owned AS (
    DELETE FROM state_owners WHERE tenant_id = %(tenant_id)s AND owner_kind = 'run' AND owner_id = ANY(%(run_ids)s)
), chosen AS (
    UPDATE choices SET run_id = NULL, session_id = NULL WHERE tenant_id = %(tenant_id)s AND run_id = ANY(%(run_ids)s)
)
DELETE FROM runs WHERE tenant_id = %(tenant_id)s AND run_id = ANY(%(run_ids)s)

-- name: delete_sessions
-- Remove sessions with everything that ends with them, and their ids from what stays.
WITH owned AS (
    DELETE FROM state_owners WHERE tenant_id = %(tenant_id)s AND owner_kind = 'session' AND owner_id = ANY(%(session_ids)s)
), chosen AS (
    UPDATE choices SET session_id = NULL, run_id = NULL
    WHERE tenant_id = %(tenant_id)s AND session_id = ANY(%(session_ids)s)
), waiting AS (
    DELETE FROM outbox WHERE tenant_id = %(tenant_id)s AND ref = ANY(%(session_refs)s)
), following AS (
    UPDATE sessions SET continues = NULL WHERE tenant_id = %(tenant_id)s AND continues = ANY(%(session_ids)s)
        AND session_id <> ALL(%(session_ids)s)
)
DELETE FROM sessions WHERE tenant_id = %(tenant_id)s AND session_id = ANY(%(session_ids)s)

-- name: list_state_sessions
-- Sessions in which a user keeps state, whether or not anything was said in them.
SELECT owner_id FROM state_owners
WHERE tenant_id = %(tenant_id)s AND owner_kind = 'session' AND user_id = %(user_id)s AND written_at <= %(before)s

-- name: delete_user
-- Remove a user's own row, profile, keys, state, entries and opinions; a key is closed for good and loses its name.
WITH closed AS (
    UPDATE api_keys SET user_id = NULL, name = %(redacted)s, revoked_at = COALESCE(revoked_at, now())
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND created_at <= %(before)s
), owned AS (
    DELETE FROM state_owners WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND written_at <= %(before)s
), put AS (
    DELETE FROM entries
    WHERE tenant_id = %(tenant_id)s AND scope = 'user' AND owner_id = %(user_id)s AND updated_at <= %(before)s
), opined AS (
    DELETE FROM feedback WHERE tenant_id = %(tenant_id)s AND given_at <= %(before)s
        AND (given_by = %(user_id)s OR substr(given_by, strpos(given_by, ':') + 1) = %(user_id)s)
), profiled AS (
    DELETE FROM profiles WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
)
DELETE FROM users WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND created_at <= %(before)s

-- name: delete_jobs
-- Forget jobs that ended and name the user.
DELETE FROM procrastinate_jobs j
WHERE j.args ->> 'tenant_id' = %(tenant_id)s::uuid::text AND j.status NOT IN ('todo', 'doing')
    AND EXISTS (SELECT FROM jsonb_each_text(j.args) a WHERE a.value = %(user_id)s)

-- name: pseudonymise_audit
-- Turn ids into hashes in the audit.
SELECT pseudonymise_audit(%(ids)s::text[])

-- name: progress
-- The progress of an erasure.
UPDATE erasures SET items = items + %(items)s, sessions = sessions + %(sessions)s
WHERE tenant_id = %(tenant_id)s AND erasure_id = %(erasure_id)s

-- name: finish_erasure
-- Close an erasure; from here on it has the hash alone.
UPDATE erasures SET user_id = NULL, finished_at = now()
WHERE tenant_id = %(tenant_id)s AND erasure_id = %(erasure_id)s AND finished_at IS NULL
RETURNING erasure_id, user_id, user_hash, requested_at, items, sessions, finished_at

-- name: find_salt
-- The tenant's salt.
SELECT salt FROM tenants WHERE tenant_id = %(tenant_id)s

-- name: set_salt
-- Use the salt of a journal.
UPDATE tenants SET salt = %(salt)s WHERE tenant_id = %(tenant_id)s AND salt <> %(salt)s

-- name: list_tombstones
-- Everything that must not come back, by hash.
SELECT hash, subject, item_id, is_final, forgotten_at FROM tombstones
WHERE tenant_id = %(tenant_id)s AND hash > %(after)s ORDER BY hash LIMIT %(limit)s

-- name: insert_tombstones
-- Insert the tombstones of a journal; the later erasure counts.
INSERT INTO tombstones (tenant_id, hash, subject, item_id, is_final, forgotten_at)
SELECT DISTINCT ON (hash) %(tenant_id)s::uuid, hash, subject, item_id, is_final, forgotten_at
FROM unnest(%(hashes)s::bytea[], %(subjects)s::text[], %(item_ids)s::uuid[], %(finals)s::boolean[], %(ats)s::timestamptz[])
    AS g (hash, subject, item_id, is_final, forgotten_at)
ORDER BY hash, forgotten_at DESC
ON CONFLICT (tenant_id, hash) DO UPDATE SET
    forgotten_at = GREATEST(tombstones.forgotten_at, excluded.forgotten_at),
    is_final = tombstones.is_final OR excluded.is_final

-- name: find_returned_items
-- Items that exist although they were forgotten.
SELECT i.item_id FROM items i JOIN tenants n ON n.tenant_id = i.tenant_id
WHERE i.tenant_id = %(tenant_id)s AND i.anonymized_at IS NULL AND EXISTS (
    SELECT FROM tombstones t
    WHERE t.tenant_id = i.tenant_id AND (t.is_final OR i.event_time <= t.forgotten_at)
        AND t.hash = ANY(item_hashes(n.salt, i)))

-- name: find_returned_users
-- Users that exist although they were erased.
SELECT u.user_id FROM users u JOIN tenants n ON n.tenant_id = u.tenant_id
JOIN tombstones t ON t.tenant_id = u.tenant_id AND t.hash = erasure_hash(n.salt, 'user', u.user_id)
WHERE u.tenant_id = %(tenant_id)s AND u.created_at <= t.forgotten_at
