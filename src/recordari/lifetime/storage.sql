-- name: lock_items
-- Items that are to be forgotten, locked until the end of the transaction, and whether an action rests on each.
SELECT i.item_id, i.kind, i.scope, i.session_id, i.thread, i.position, EXISTS (
    SELECT FROM holds h WHERE h.tenant_id = i.tenant_id AND h.item_id = i.item_id) AS is_held
FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.anonymized_at IS NULL
ORDER BY i.item_id FOR UPDATE OF i

-- name: resting_only_on
-- What was derived from these items and from nothing else.
SELECT DISTINCT e.item_id FROM evidence e
JOIN items i ON i.tenant_id = e.tenant_id AND i.item_id = e.item_id AND i.anonymized_at IS NULL
WHERE e.tenant_id = %(tenant_id)s AND e.source_item_id = ANY(%(item_ids)s) AND e.item_id <> ALL(%(item_ids)s)
    AND NOT EXISTS (
        SELECT FROM evidence o
        WHERE o.tenant_id = e.tenant_id AND o.item_id = e.item_id AND o.source_item_id <> ALL(%(item_ids)s))

-- name: bury
-- Tombstones of items: by their reference and by what they say. Summaries are made again and have none.
INSERT INTO tombstones (tenant_id, hash, subject, item_id, is_final, forgotten_at)
SELECT DISTINCT ON (h.hash) i.tenant_id, h.hash, 'item', i.item_id,
    -- A thing that happened never happens again; a fact may be stated anew; a document is taken in again and again.
    i.kind IN ('chat_message', 'tool_output', 'episode', 'document_chunk'), %(now)s
FROM items i JOIN tenants t ON t.tenant_id = i.tenant_id
CROSS JOIN LATERAL unnest(item_hashes(t.salt, i)) WITH ORDINALITY AS h (hash, place)
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.anonymized_at IS NULL
    AND i.kind <> 'session_summary' AND (i.kind <> 'document_chunk' OR (h.place = 2 AND i.live))
ORDER BY h.hash
ON CONFLICT (tenant_id, hash) DO UPDATE SET forgotten_at = excluded.forgotten_at, item_id = excluded.item_id
RETURNING hash, subject, item_id, is_final, forgotten_at

-- name: delete_derived
-- Everything made from these items: vectors, links, opinions, counts, notes, work that waits for them.
WITH embedded AS (
    DELETE FROM vectors WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), evident AS (
    DELETE FROM evidence
    WHERE tenant_id = %(tenant_id)s AND (item_id = ANY(%(item_ids)s) OR source_item_id = ANY(%(item_ids)s))
), opined AS (
    DELETE FROM feedback WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), counted AS (
    DELETE FROM access WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
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

-- name: delete_unmentioned
-- Entities that nothing mentions any more.
DELETE FROM entities e
WHERE e.tenant_id = %(tenant_id)s AND e.entity_id = ANY(%(entity_ids)s) AND NOT EXISTS (
    SELECT FROM mentions m WHERE m.tenant_id = e.tenant_id AND m.entity_id = e.entity_id)

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
    JOIN items n ON n.tenant_id = i.tenant_id AND n.thread = i.thread AND n.position = i.position + 1
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.kind = 'chat_message'
        AND n.kind = 'chat_message' AND n.anonymized_at IS NULL AND n.item_id <> ALL(%(item_ids)s)
), dropped AS (
    DELETE FROM vectors v USING followers f WHERE v.tenant_id = %(tenant_id)s AND v.item_id = f.item_id
)
SELECT item_id FROM followers

-- name: lock_sessions
-- The sessions of these ids as far as their summaries go, locked.
SELECT session_id, session_ref, summary_id, summarised_to, folded_to, folds FROM sessions
WHERE tenant_id = %(tenant_id)s AND session_id = ANY(%(session_ids)s) ORDER BY session_id FOR UPDATE

-- name: reset_summary
-- Take a session's summaries back to places; where the rolling one tells too much it begins again.
UPDATE sessions SET summary = CASE WHEN %(summary_id)s::uuid IS NULL THEN '' ELSE summary END, summary_id = %(summary_id)s,
    summarised_to = %(summarised_to)s, folds = %(folds)s, folded_to = %(folded_to)s
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s

-- name: list_discarded
-- Objects that are to be removed; one that another row still points to is not.
SELECT d.object_key, EXISTS (
    SELECT FROM payloads p WHERE p.tenant_id = d.tenant_id AND p.object_key = d.object_key) AS is_used
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
            (SELECT r.ended_at FROM runs r WHERE r.tenant_id = i.tenant_id AND r.run_id = i.run_id),
            (SELECT s.closed_at FROM sessions s WHERE s.tenant_id = i.tenant_id AND s.session_id = i.session_id))
        WHEN 'session' THEN
            (SELECT s.closed_at FROM sessions s WHERE s.tenant_id = i.tenant_id AND s.session_id = i.session_id)
    END AS scope_ended_at,
    i.pinned_at IS NOT NULL AS is_pinned,
    EXISTS (SELECT FROM holds h WHERE h.tenant_id = i.tenant_id AND h.item_id = i.item_id) AS is_held
FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.item_id > %(after)s AND i.anonymized_at IS NULL
    AND (NOT i.live OR i.tier IN ('run', 'session'))
ORDER BY i.item_id LIMIT %(limit)s

-- name: count_kept
-- How many items the tenant has that still say something.
SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND anonymized_at IS NULL

-- name: archive_items
-- Take items out of recall; their vectors follow.
WITH archived AS (
    UPDATE items SET archived_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND archived_at IS NULL AND anonymized_at IS NULL
    RETURNING item_id
), hidden AS (
    UPDATE vectors v SET live = false FROM archived a WHERE v.tenant_id = %(tenant_id)s AND v.item_id = a.item_id
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
    SELECT FROM holds h WHERE h.tenant_id = i.tenant_id AND h.item_id = i.item_id)
RETURNING i.item_id

-- name: list_used_objects
-- Which of these objects a row points to.
SELECT object_key FROM payloads WHERE tenant_id = %(tenant_id)s AND object_key = ANY(%(object_keys)s)

-- name: list_recent
-- What is known of the use of recent memory, some of it, by id.
SELECT i.item_id, i.kind, i.tier, i.trust, i.created_at, COALESCE(a.times, 0) AS accesses, a.last_at,
    octet_length(i.terms) / 4 AS terms, i.pinned_at IS NOT NULL AS is_pinned,
    (SELECT count(*) FROM mentions m WHERE m.tenant_id = i.tenant_id AND m.item_id = i.item_id) AS names,
    (SELECT count(DISTINCT COALESCE(s.session_id, s.item_id::text)) FROM evidence e
     JOIN items s ON s.tenant_id = e.tenant_id AND s.item_id = e.source_item_id AND s.anonymized_at IS NULL
        AND s.trust IN ('user', 'agent')
     WHERE e.tenant_id = i.tenant_id AND e.item_id = i.item_id) AS sources
FROM items i LEFT JOIN access a ON a.tenant_id = i.tenant_id AND a.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.tier = 'recent' AND i.live AND i.item_id > %(after)s
ORDER BY i.item_id LIMIT %(limit)s

-- name: archive_faded
-- Take faded items out of recall with their vectors, unless somebody promoted or recalled them meanwhile.
WITH archived AS (
    UPDATE items i SET archived_at = %(now)s
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.tier = 'recent' AND i.live
        AND i.pinned_at IS NULL AND NOT EXISTS (
            SELECT FROM access a WHERE a.tenant_id = i.tenant_id AND a.item_id = i.item_id AND a.last_at > %(recalled_since)s)
    RETURNING i.item_id
), hidden AS (
    UPDATE vectors v SET live = false FROM archived a WHERE v.tenant_id = %(tenant_id)s AND v.item_id = a.item_id
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

-- name: delete_hold
-- An action rests on an item no longer.
DELETE FROM holds WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND action_id = %(action_id)s

-- name: list_holds
-- The actions that rest on an item.
SELECT item_id, action_id, created_at FROM holds
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s ORDER BY created_at, action_id
