-- name: shared_now
-- What the tenant tells all of its agents, pinned first, then the newest; only what was there at the moment given.
SELECT item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, content, speaker, trust, event_time,
    created_at, valid_at, invalid_at, superseded_by, subject, predicate, object, confidence, category, payload_key, metadata
FROM items
WHERE tenant_id = %(tenant_id)s AND scope = 'tenant' AND kind IN ('fact', 'procedure') AND live AND created_at <= %(before)s
ORDER BY pinned_at IS NULL, item_id DESC LIMIT %(limit)s

-- name: shared_then
-- The same as it was held true at an earlier moment.
SELECT item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, content, speaker, trust, event_time,
    created_at, valid_at, invalid_at, superseded_by, subject, predicate, object, confidence, category, payload_key, metadata
FROM items
WHERE tenant_id = %(tenant_id)s AND scope = 'tenant' AND kind IN ('fact', 'procedure')
    AND created_at <= %(as_of)s AND valid_at <= %(as_of)s AND (invalid_at IS NULL OR invalid_at > %(as_of)s)
    AND deleted_at IS NULL AND anonymized_at IS NULL
ORDER BY pinned_at IS NULL, item_id DESC LIMIT %(limit)s

-- name: activity
-- What an agent did in a stretch of time, newest first, as far as this user and session may see it.
SELECT item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, content, speaker, trust, event_time,
    created_at, valid_at, invalid_at, superseded_by, subject, predicate, object, confidence, category, payload_key, metadata
FROM items
WHERE tenant_id = %(tenant_id)s AND kind = 'episode' AND agent_id = %(agent_id)s AND live
    AND event_time >= %(since)s AND event_time < %(until)s
    AND (scope = 'agent' OR (scope = 'user' AND user_id = %(user_id)s) OR (scope = 'session' AND session_id = %(session_id)s))
ORDER BY event_time DESC, item_id DESC LIMIT %(limit)s

-- name: written_at
-- When the message at a place of a thread was written.
SELECT created_at FROM items WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s AND position = %(position)s

-- name: version
-- How often what these owners may recall has changed; of a session with all those that it is one line with.
SELECT COALESCE(sum(version), 0)::bigint FROM memory_versions
WHERE tenant_id = %(tenant_id)s AND owner_class = ANY(ARRAY[
    owner_class('tenant', NULL, NULL, NULL), owner_class('user', %(user_id)s, NULL, NULL),
    owner_class('agent', NULL, %(agent_id)s, NULL), owner_class('session', NULL, NULL, %(session_id)s)]
    || ARRAY(SELECT owner_class('session', NULL, NULL, s.session_id) FROM sessions s
        WHERE s.tenant_id = %(tenant_id)s AND s.root_id = (
            SELECT root_id FROM sessions WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s)))
