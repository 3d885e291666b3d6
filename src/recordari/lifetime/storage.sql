-- name: lock_items
-- Items that are to be forgotten, locked until the end of the transaction, and whether an action rests on each.
SELECT i.item_id, i.kind, i.scope, i.session_id, owner_of(i.user_id, i.agent_id) AS session_owner, i.thread, i.position, EXISTS (
    SELECT 1 FROM holds h WHERE h.tenant_id = %(tenant_id)s AND h.item_id = i.item_id) AS is_held
FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.anonymized_at IS NULL
ORDER BY i.item_id FOR UPDATE OF i

-- name: resting_only_on
-- What was derived from these items and from nothing else; a summary quotes each of its sources, and goes with any of them.
SELECT DISTINCT e.item_id FROM evidence e
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = e.item_id AND i.anonymized_at IS NULL
WHERE e.tenant_id = %(tenant_id)s AND e.source_item_id = ANY(%(item_ids)s) AND e.item_id <> ALL(%(item_ids)s)
    AND (i.kind = 'session_summary' OR NOT EXISTS (
        SELECT 1 FROM evidence o
        WHERE o.tenant_id = %(tenant_id)s AND o.item_id = e.item_id AND o.source_item_id <> ALL(%(item_ids)s)))

-- name: bury
-- Tombstones of items: by their reference and by what they say. Summaries are made again and have none.
INSERT INTO tombstones (tenant_id, hash, subject, item_id, is_final, forgotten_at)
SELECT DISTINCT ON (h.hash) i.tenant_id, h.hash, 'item', i.item_id,
    -- A thing that happened never happens again; a fact may be stated anew; a document is taken in again and again.
    i.kind IN ('chat_message', 'tool_output', 'episode', 'document_chunk'), %(now)s
FROM items i JOIN tenants t ON t.tenant_id = %(tenant_id)s
CROSS JOIN LATERAL unnest(item_hashes(
    t.salt, i.kind, i.scope, i.user_id, i.agent_id, i.session_id, i.source_ref, i.event_time, i.content_hash
)) WITH ORDINALITY AS h (hash, place)
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.anonymized_at IS NULL
    AND i.kind <> 'session_summary' AND (i.kind <> 'document_chunk' OR (h.place = 2 AND i.live))
ORDER BY h.hash
ON CONFLICT (tenant_id, hash) DO UPDATE SET forgotten_at = excluded.forgotten_at, item_id = excluded.item_id
RETURNING hash, subject, item_id, is_final, forgotten_at

-- name: delete_derived
-- Everything made from these items: vectors, passages, links, opinions, counts, notes, work that waits for them.
WITH embedded AS (
    DELETE FROM vectors WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), cut AS (
    DELETE FROM passages WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), evident AS (
    DELETE FROM evidence
    WHERE tenant_id = %(tenant_id)s AND (item_id = ANY(%(item_ids)s) OR source_item_id = ANY(%(item_ids)s))
), opined AS (
    DELETE FROM feedback WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), counted AS (
    DELETE FROM access WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), seen AS (
    DELETE FROM uses WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), noted AS (
    DELETE FROM notes WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), waiting AS (
    DELETE FROM outbox WHERE tenant_id = %(tenant_id)s AND ref = ANY(%(item_ids)s)
), called AS (
    UPDATE tool_calls SET result_sha256 = NULL, result_key = NULL
    WHERE tenant_id = %(tenant_id)s AND result_id = ANY(%(item_ids)s)
), bodies AS (
    DELETE FROM payloads WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
)
DELETE FROM mentions WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) RETURNING entity_id

-- name: empty_answers
-- Answers kept by idempotency key that show one of these ids: the key stays used, but what was answered is gone.
UPDATE answers SET sealed = NULL, shows = '{}'
WHERE tenant_id = %(tenant_id)s AND sealed IS NOT NULL AND shows && %(ids)s::text[]

-- name: forget_reasons
-- What people gave as reasons for changes of these items, or of proposals about them.
SELECT forget_reasons(%(tenant_id)s::uuid, %(item_ids)s::uuid[])

-- name: forget_proposal_reasons
-- The same reasons, where a proposal shows them.
UPDATE proposals SET reason = NULL WHERE tenant_id = %(tenant_id)s AND reason IS NOT NULL AND proposal_id IN (
    SELECT p.proposal_id FROM proposal_inputs p
    WHERE p.tenant_id = %(tenant_id)s AND p.item_id = ANY(%(item_ids)s::uuid[]))

-- name: renew_samples
-- Let the planner sample the ids of items anew.
SELECT renew_samples()

-- name: delete_unmentioned
-- Entities that nothing mentions any more.
DELETE FROM entities e
WHERE e.tenant_id = %(tenant_id)s AND e.entity_id = ANY(%(entity_ids)s) AND NOT EXISTS (
    SELECT 1 FROM mentions m WHERE m.tenant_id = %(tenant_id)s AND m.entity_id = e.entity_id)

-- name: redact
-- Take everything said out of items; the rows stay, so that chains hold. A reference may name people or repeat words.
UPDATE items SET
    content = %(redacted)s, content_hash = '', source_ref = item_id::text || '|anonymized', user_id = NULL, agent_id = NULL,
    session_id = NULL, run_id = NULL, speaker = NULL, subject = NULL, predicate = NULL, object = NULL, confidence = NULL,
    category = NULL, payload_key = NULL, metadata = '{}', tsv = '', terms = '', tokens = '', traits = 0,
    thread = CASE WHEN %(keep_place)s THEN thread END, position = CASE WHEN %(keep_place)s THEN position END,
    anonymized_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND anonymized_at IS NULL
RETURNING item_id

-- name: unembed_followers
-- Drop the vectors of messages that were embedded with the beginning of one of these; they are embedded again.
WITH followers AS (
    SELECT n.item_id FROM items i
    JOIN items n ON n.tenant_id = %(tenant_id)s AND n.thread = i.thread AND n.position = i.position + 1
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.kind = 'chat_message'
        AND n.kind = 'chat_message' AND n.anonymized_at IS NULL AND n.item_id <> ALL(%(item_ids)s)
), dropped AS (
    DELETE FROM vectors v USING followers f WHERE v.tenant_id = %(tenant_id)s AND v.item_id = f.item_id
)
SELECT item_id FROM followers

-- name: lock_sessions
-- The sessions of these ids as far as their summaries go, locked.
SELECT session_id, owned_by, session_ref, summary_id, summarised_to, folded_to, folds FROM sessions
WHERE tenant_id = %(tenant_id)s AND session_id = ANY(%(session_ids)s::text[]) AND session_thread(owned_by, session_id) = ANY(ARRAY(
    SELECT session_thread(k.owned_by, k.session_id)
    FROM unnest(%(session_ids)s::text[], %(owners)s::text[]) AS k (session_id, owned_by)))
ORDER BY session_id, owned_by FOR UPDATE

-- name: reset_summary
-- Take a session's summaries back to places; where the rolling one tells too much it begins again.
UPDATE sessions SET summary = CASE WHEN %(summary_id)s::uuid IS NULL THEN '' ELSE summary END, summary_id = %(summary_id)s,
    summary_trust = CASE WHEN %(summary_id)s::uuid IS NULL THEN 'agent' ELSE summary_trust END,
    summarised_to = %(summarised_to)s, folds = %(folds)s, folded_to = %(folded_to)s
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s

-- name: list_discarded
-- Objects that are to be removed; one that another row still points to is not.
SELECT d.object_key, EXISTS (
    SELECT 1 FROM payloads p WHERE p.tenant_id = %(tenant_id)s AND p.object_key = d.object_key) AS is_used
FROM discarded_objects d WHERE d.tenant_id = %(tenant_id)s ORDER BY d.object_key LIMIT %(limit)s

-- name: delete_discarded
-- Strike off objects that were removed.
DELETE FROM discarded_objects WHERE tenant_id = %(tenant_id)s AND object_key = ANY(%(object_keys)s)

-- name: list_ended
-- Items that something has ended, and when; some after the id given.
SELECT i.item_id, i.tier, i.deleted_at,
    CASE WHEN i.invalid_at IS NOT NULL OR i.superseded_by IS NOT NULL THEN COALESCE(i.invalid_at, i.created_at) END AS invalid_at,
    i.archived_at,
    CASE i.tier
        WHEN 'run' THEN COALESCE(
            (SELECT r.ended_at FROM runs r
             WHERE r.tenant_id = %(tenant_id)s AND r.run_id = i.run_id AND r.owned_by = owner_of(i.user_id, i.agent_id)),
            (SELECT s.closed_at FROM sessions s
             WHERE s.tenant_id = %(tenant_id)s AND s.session_id = i.session_id AND s.owned_by = owner_of(i.user_id, i.agent_id)))
        WHEN 'session' THEN
            (SELECT s.closed_at FROM sessions s
             WHERE s.tenant_id = %(tenant_id)s AND s.session_id = i.session_id AND s.owned_by = owner_of(i.user_id, i.agent_id))
    END AS scope_ended_at,
    i.pinned_at IS NOT NULL AS is_pinned,
    EXISTS (SELECT 1 FROM holds h WHERE h.tenant_id = %(tenant_id)s AND h.item_id = i.item_id) AS is_held
FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.item_id > %(after)s AND i.anonymized_at IS NULL
    AND (NOT i.live OR i.tier IN ('run', 'session'))
ORDER BY i.item_id LIMIT %(limit)s

-- name: count_kept
-- How many items the tenant has that still say something.
SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND anonymized_at IS NULL

-- name: archive_items
-- Take items out of what is shown unasked; recall still finds them, unless they end with their run or session.
WITH archived AS (
    UPDATE items SET archived_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND archived_at IS NULL AND anonymized_at IS NULL
    RETURNING item_id, tier
), marked AS (
    UPDATE vectors v SET archived = true, live = v.live AND a.tier NOT IN ('run', 'session') FROM archived a WHERE v.tenant_id = %(tenant_id)s AND v.item_id = a.item_id
)
SELECT item_id FROM archived

-- name: purge_items
-- Remove rows of memory that was never meant to last, unless an action rests on them.
WITH noted AS (
    DELETE FROM notes WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), waiting AS (
    DELETE FROM outbox WHERE tenant_id = %(tenant_id)s AND ref = ANY(%(item_ids)s)
)
DELETE FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.tier <> 'persistent' AND NOT EXISTS (
    SELECT 1 FROM holds h WHERE h.tenant_id = %(tenant_id)s AND h.item_id = i.item_id)
RETURNING i.item_id

-- name: list_used_objects
-- Which of these objects a row points to.
SELECT object_key FROM payloads WHERE tenant_id = %(tenant_id)s AND object_key = ANY(%(object_keys)s)

-- name: list_recent
-- What is known of the use of recent memory, some of it, by id.
SELECT i.item_id, i.kind, i.tier, i.trust, i.created_at, COALESCE(a.times, 0) AS accesses, a.last_at,
    octet_length(i.terms) / 4 AS terms, i.pinned_at IS NOT NULL AS is_pinned,
    (SELECT count(*) FROM mentions m WHERE m.tenant_id = %(tenant_id)s AND m.item_id = i.item_id) AS names,
    (SELECT count(DISTINCT COALESCE(session_thread(owner_of(s.user_id, s.agent_id), s.session_id), s.item_id::text))
     FROM evidence e
     JOIN items s ON s.tenant_id = %(tenant_id)s AND s.item_id = e.source_item_id AND s.anonymized_at IS NULL
        AND s.trust IN ('user', 'agent')
     WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id) AS sources
FROM items i LEFT JOIN access a ON a.tenant_id = %(tenant_id)s AND a.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.tier = 'recent' AND i.live AND i.item_id > %(after)s
ORDER BY i.item_id LIMIT %(limit)s

-- name: find_trace
-- What is known of the use of one item.
SELECT i.item_id, i.kind, i.tier, i.trust, i.created_at, COALESCE(a.times, 0) AS accesses, a.last_at,
    octet_length(i.terms) / 4 AS terms, i.pinned_at IS NOT NULL AS is_pinned,
    (SELECT count(*) FROM mentions m WHERE m.tenant_id = %(tenant_id)s AND m.item_id = i.item_id) AS names, 0 AS sources
FROM items i LEFT JOIN access a ON a.tenant_id = %(tenant_id)s AND a.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = %(item_id)s

-- name: archive_faded
-- Take faded items out of what is shown unasked, unless somebody promoted or recalled them meanwhile.
WITH archived AS (
    UPDATE items i SET archived_at = %(now)s
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.tier = 'recent' AND i.live
        AND i.pinned_at IS NULL AND NOT EXISTS (
            SELECT 1 FROM access a WHERE a.tenant_id = %(tenant_id)s AND a.item_id = i.item_id AND a.last_at > %(recalled_since)s)
    RETURNING i.item_id
), marked AS (
    UPDATE vectors v SET archived = true FROM archived a WHERE v.tenant_id = %(tenant_id)s AND v.item_id = a.item_id
)
SELECT item_id FROM archived

-- name: promote_items
-- Let recent items last.
UPDATE items SET tier = 'persistent'
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND tier = 'recent' AND live
RETURNING item_id

-- name: insert_hold
-- An action rests on an item that still says something.
INSERT INTO holds (tenant_id, item_id, action_id)
SELECT i.tenant_id, i.item_id, %(action_id)s FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = %(item_id)s AND i.anonymized_at IS NULL FOR SHARE OF i
ON CONFLICT (tenant_id, item_id, action_id) DO NOTHING
RETURNING 1

-- name: delete_hold
-- An action rests on an item no longer.
DELETE FROM holds WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND action_id = %(action_id)s

-- name: list_holds
-- The actions that rest on an item.
SELECT item_id, action_id, created_at FROM holds
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s ORDER BY created_at, action_id

-- name: start_erasure
-- Begin to erase a user, or find the erasure that runs; from now on nothing older of that user is written.
WITH named AS (
    SELECT erasure_hash(salt, 'user', %(user_id)s) AS hash FROM tenants WHERE tenant_id = %(tenant_id)s
), buried AS (
    INSERT INTO tombstones (tenant_id, hash, subject, is_final, forgotten_at)
    SELECT %(tenant_id)s::uuid, hash, 'user', false, now() FROM named
    ON CONFLICT (tenant_id, hash) DO UPDATE SET forgotten_at = excluded.forgotten_at
    RETURNING 1
)
INSERT INTO erasures (tenant_id, erasure_id, user_hash, user_id, requested_at, start_xid)
SELECT %(tenant_id)s, %(erasure_id)s, hash, %(user_id)s, now(), pg_current_xact_id() FROM named
ON CONFLICT (tenant_id, user_hash) WHERE finished_at IS NULL DO UPDATE SET
    requested_at = excluded.requested_at, start_xid = excluded.start_xid
RETURNING erasure_id, user_id, user_hash, requested_at, items, sessions, finished_at

-- name: list_erasures
-- Erasures of the tenant, newest first, before an id.
SELECT erasure_id, user_id, user_hash, requested_at, items, sessions, finished_at FROM erasures
WHERE tenant_id = %(tenant_id)s AND erasure_id < %(before)s ORDER BY erasure_id DESC LIMIT %(limit)s

-- name: find_erasure
-- One erasure.
SELECT erasure_id, user_id, user_hash, requested_at, items, sessions, finished_at FROM erasures
WHERE tenant_id = %(tenant_id)s AND erasure_id = %(erasure_id)s

-- name: count_held
-- How many items of a user actions hold.
SELECT count(DISTINCT h.item_id) FROM holds h JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = h.item_id
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
(SELECT i.item_id FROM sessions s CROSS JOIN LATERAL (
    -- In order, so that the index of threads is the way to them whatever the planner knows.
    SELECT i.item_id FROM items i
    WHERE i.tenant_id = s.tenant_id AND i.thread = session_thread(s.owned_by, s.session_id) AND i.user_id IS NULL
        AND i.anonymized_at IS NULL AND i.created_at <= %(before)s
    ORDER BY i.position) i
 WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.opened_at <= %(before)s LIMIT %(limit)s)

-- name: count_held_of_agent
-- How many memories of an agent actions hold.
SELECT count(DISTINCT h.item_id) FROM holds h JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = h.item_id
WHERE h.tenant_id = %(tenant_id)s AND i.agent_id = %(agent_id)s AND (i.scope = 'agent' OR i.user_id IS NULL)

-- name: list_items_of_agent
-- Memories of an agent: what has its scope, and what was said in sessions of its own; some at a time.
SELECT item_id FROM items
WHERE tenant_id = %(tenant_id)s AND agent_id = %(agent_id)s AND (scope = 'agent' OR (user_id IS NULL AND scope <> 'tenant'))
    AND anonymized_at IS NULL AND shared_from IS NULL LIMIT %(limit)s

-- name: list_sessions_of_agent
-- Sessions of an agent without a user, with the runs in them; some at a time.
SELECT s.session_id, s.session_ref, ARRAY(
    SELECT r.run_id FROM runs r
    WHERE r.tenant_id = %(tenant_id)s AND r.session_id = s.session_id AND r.owned_by = s.owned_by) AS run_ids
FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.owned_by = %(owned_by)s ORDER BY s.session_ref LIMIT %(limit)s

-- name: delete_state_of_agent
-- Remove the state, entries, profile and standing questions of an agent.
WITH owned AS (
    DELETE FROM state_owners WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s
), put AS (
    DELETE FROM entries WHERE tenant_id = %(tenant_id)s AND scope = 'agent' AND owner_id = %(agent_id)s
), asked AS (
    DELETE FROM questions WHERE tenant_id = %(tenant_id)s AND agent_id = %(agent_id)s
)
DELETE FROM profiles WHERE tenant_id = %(tenant_id)s AND agent_id = %(agent_id)s AND user_id IS NULL

-- name: unplace_items
-- Remove rows that were redacted earlier from the user's threads, which name the user.
UPDATE items SET thread = NULL, position = NULL
WHERE tenant_id = %(tenant_id)s AND anonymized_at IS NOT NULL AND created_at <= %(before)s
    AND starts_with(thread, session_thread(%(owned_by)s, ''))

-- name: list_sessions
-- Sessions of a user with the runs in them, some at a time.
SELECT s.session_id, s.session_ref, ARRAY(
    SELECT r.run_id FROM runs r
    WHERE r.tenant_id = %(tenant_id)s AND r.session_id = s.session_id AND r.owned_by = s.owned_by) AS run_ids
FROM sessions s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.opened_at <= %(before)s
ORDER BY s.session_ref LIMIT %(limit)s

-- name: delete_sessions
-- Remove sessions of a user with everything that ends with them, their runs too, and their ids from what stays.
WITH owned AS (
    DELETE FROM state_owners WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND (
        (owner_kind = 'session' AND owner_id = ANY(%(session_ids)s)) OR (owner_kind = 'run' AND owner_id = ANY(%(run_ids)s)))
), waiting AS (
    DELETE FROM outbox WHERE tenant_id = %(tenant_id)s AND ref = ANY(%(session_refs)s)
), following AS (
    UPDATE sessions SET continues = NULL WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s
        AND continues = ANY(%(session_ids)s) AND session_id <> ALL(%(session_ids)s)
)
DELETE FROM sessions WHERE tenant_id = %(tenant_id)s AND session_id = ANY(%(session_ids)s) AND owned_by = %(owned_by)s

-- name: list_state_sessions
-- Sessions in which a user keeps state, whether or not anything was said in them.
SELECT owner_id FROM state_owners
WHERE tenant_id = %(tenant_id)s AND owner_kind = 'session' AND owned_by = %(owned_by)s AND written_at <= %(before)s

-- name: delete_user
-- Remove a user's own row, profile, answers, keys, state, entries and opinions; a key is closed for good and loses its name.
-- What workflows learnt stays, and names nobody any more.
WITH closed AS (
    UPDATE api_keys SET user_id = NULL, name = %(redacted)s, revoked_at = COALESCE(revoked_at, (SELECT now()))
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND created_at <= %(before)s
), signed_out AS (
    DELETE FROM sign_ins WHERE tenant_id = %(tenant_id)s AND (user_id = %(user_id)s OR actor = 'jwt:' || %(user_id)s)
), struck AS (
    UPDATE api_keys SET users = array_remove(users, %(user_id)s::text)
    WHERE tenant_id = %(tenant_id)s AND %(user_id)s::text = ANY(users)
), owned AS (
    DELETE FROM state_owners WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND written_at <= %(before)s
), seen AS (
    DELETE FROM uses WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s
), chosen AS (
    UPDATE choices SET owned_by = 'tenant', session_id = NULL, run_id = NULL
    WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND chosen_at <= %(before)s
), rewarded AS (
    UPDATE outcomes SET owned_by = 'erased:' || md5(%(token)s::text || outcome_id)
    WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND rewarded_at <= %(before)s
), put AS (
    DELETE FROM entries
    WHERE tenant_id = %(tenant_id)s AND scope = 'user' AND owner_id = %(user_id)s AND updated_at <= %(before)s
), opined AS (
    DELETE FROM feedback WHERE tenant_id = %(tenant_id)s AND given_at <= %(before)s
        AND (given_by = %(user_id)s OR substr(given_by, strpos(given_by, ':') + 1) = %(user_id)s)
), profiled AS (
    DELETE FROM profiles WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
), answered AS (
    DELETE FROM question_answers WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
)
DELETE FROM users WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND created_at <= %(before)s

-- name: delete_jobs
-- Forget jobs that ended and name the user.
DELETE FROM procrastinate_jobs j
WHERE j.args ->> 'tenant_id' = %(tenant_id)s::uuid::text AND j.status NOT IN ('todo', 'doing')
    AND EXISTS (SELECT 1 FROM jsonb_each_text(j.args) a WHERE a.value = %(user_id)s)

-- name: pseudonymise_audit
-- Turn ids into hashes in the audit.
SELECT pseudonymise_audit(%(tenant_id)s::uuid, %(ids)s::text[])

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
RETURNING 1

-- name: find_returned_items
-- Items that exist although they were forgotten.
SELECT DISTINCT i.item_id FROM items i JOIN tenants n ON n.tenant_id = %(tenant_id)s
CROSS JOIN LATERAL unnest(item_hashes(
    n.salt, i.kind, i.scope, i.user_id, i.agent_id, i.session_id, i.source_ref, i.event_time, i.content_hash)) AS h (hash)
CROSS JOIN LATERAL (
    SELECT 1 FROM tombstones t
    WHERE t.tenant_id = %(tenant_id)s AND t.hash = h.hash AND (t.is_final OR i.event_time <= t.forgotten_at)
    LIMIT 1) t
WHERE i.tenant_id = %(tenant_id)s AND i.anonymized_at IS NULL

-- name: find_returned_users
-- Users that exist although they were erased.
SELECT u.user_id FROM users u JOIN tenants n ON n.tenant_id = %(tenant_id)s
JOIN tombstones t ON t.tenant_id = %(tenant_id)s AND t.hash = erasure_hash(n.salt, 'user', u.user_id)
WHERE u.tenant_id = %(tenant_id)s AND u.created_at <= t.forgotten_at
