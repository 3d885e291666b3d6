-- name: list_due
-- Sessions that were closed before the moment given and not consolidated yet, in the order they were closed.
SELECT session_ref, closed_at FROM sessions
WHERE tenant_id = %(tenant_id)s AND status = 'closed' AND consolidated_at IS NULL AND closed_at <= %(before)s
    AND (closed_at, session_ref) > (%(after)s, %(after_ref)s)
ORDER BY closed_at, session_ref LIMIT %(limit)s

-- name: lock_closed
-- A closed session that was not consolidated yet, locked; its ids, and its lasting summaries.
SELECT session_id, user_id, agent_id, folds FROM sessions
WHERE tenant_id = %(tenant_id)s AND session_ref = %(session_ref)s AND status = 'closed' AND consolidated_at IS NULL
FOR UPDATE

-- name: list_observed
-- What was said and done in a session by carriers that may be learned from, in order.
SELECT item_id, kind, scope, trust, speaker, content, event_time FROM items
WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s AND kind IN ('chat_message', 'episode')
    AND trust IN ('user', 'agent') AND invalid_at IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
    AND shared_from IS NULL AND COALESCE(metadata ->> 'recalled', 'false') <> 'true'
ORDER BY position, item_id LIMIT %(limit)s

-- name: list_earlier
-- What an agent did in other sessions lately, oldest first.
SELECT * FROM (
    SELECT item_id, kind, scope, trust, speaker, content, event_time FROM items
    WHERE tenant_id = %(tenant_id)s AND kind = 'episode' AND agent_id = %(agent_id)s AND trust IN ('user', 'agent')
        AND session_id IS DISTINCT FROM %(session_id)s AND invalid_at IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
        AND (scope = 'agent' OR (scope = 'user' AND user_id = %(user_id)s))
    ORDER BY item_id DESC LIMIT %(limit)s) newest
ORDER BY event_time, item_id

-- name: same_topic
-- Live patterns of the same owner about the same thing.
SELECT i.item_id, i.valid_at FROM items m
JOIN items i ON i.tenant_id = m.tenant_id AND i.subject = m.subject AND i.predicate = m.predicate AND i.kind = m.kind
    AND i.scope = m.scope AND i.item_id <> m.item_id AND i.live
    AND ((i.scope = 'user' AND i.user_id = m.user_id) OR (i.scope = 'agent' AND i.agent_id = m.agent_id))
WHERE m.tenant_id = %(tenant_id)s AND m.item_id = %(item_id)s AND m.live

-- name: archive_sources
-- Take episodes out of recall that something lasting rests on now; their vectors follow.
WITH archived AS (
    UPDATE items SET archived_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND kind = 'episode' AND live AND pinned_at IS NULL
    RETURNING item_id
), hidden AS (
    UPDATE vectors v SET live = false FROM archived a WHERE v.tenant_id = %(tenant_id)s AND v.item_id = a.item_id
)
SELECT item_id FROM archived

-- name: promote_summaries
-- Let summaries of a session last, as far as all that they tell came from trusted carriers.
UPDATE items SET tier = 'persistent'
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND kind = 'session_summary' AND tier = 'recent' AND live
    AND trust IN ('user', 'agent')
RETURNING item_id

-- name: promote_session_facts
-- Let facts of a session last that separate trusted sources bear out.
UPDATE items i SET tier = 'persistent', session_id = NULL
WHERE i.tenant_id = %(tenant_id)s AND i.session_id = %(session_id)s AND i.kind = 'fact' AND i.tier = 'session' AND i.live
    AND i.anonymized_at IS NULL  -- told twice, so that the index of transient items is used
    AND i.trust IN ('user', 'agent') AND (
        SELECT count(DISTINCT COALESCE(s.session_id, s.item_id::text)) FROM evidence e
        JOIN items s ON s.tenant_id = e.tenant_id AND s.item_id = e.source_item_id
        WHERE e.tenant_id = i.tenant_id AND e.item_id = i.item_id AND s.trust IN ('user', 'agent')) >= %(sources)s
RETURNING i.item_id

-- name: mark_consolidated
-- What is worth keeping was taken from a session.
UPDATE sessions SET consolidated_at = %(now)s WHERE tenant_id = %(tenant_id)s AND session_ref = %(session_ref)s
