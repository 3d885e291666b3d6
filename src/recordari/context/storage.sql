-- name: shared_now
-- Facts and procedures of the tenant that were written by a given moment: pinned first, then the newest.
SELECT {item_columns} FROM items
WHERE tenant_id = %(tenant_id)s AND scope = 'tenant' AND kind IN ('fact', 'procedure') AND live AND created_at <= %(before)s
ORDER BY pinned_at IS NULL, item_id DESC LIMIT %(limit)s

-- name: shared_then
-- The facts and procedures of the tenant that were true at one moment by what was recorded at another.
SELECT {item_columns} FROM items
WHERE tenant_id = %(tenant_id)s AND scope = 'tenant' AND kind IN ('fact', 'procedure')
    AND valid_at <= %(as_of)s AND created_at <= %(known_at)s
    AND (invalid_at IS NULL OR invalid_at > %(as_of)s OR retired_at > %(known_at)s)
    AND deleted_at IS NULL AND anonymized_at IS NULL
ORDER BY pinned_at IS NULL, item_id DESC LIMIT %(limit)s

-- name: activity
-- The episodes of an agent in an interval, newest first, as far as this user and session may see them.
SELECT {item_columns} FROM items
WHERE tenant_id = %(tenant_id)s AND kind = 'episode' AND agent_id = %(agent_id)s AND live
    AND event_time >= %(since)s AND event_time < %(until)s AND created_at <= %(known_at)s
    AND (scope = 'agent' OR (scope = 'user' AND user_id = %(user_id)s)
        OR (scope = 'session' AND owned_by = %(owned_by)s AND session_id = %(session_id)s))
ORDER BY event_time DESC, item_id DESC LIMIT %(limit)s

-- name: written_at
-- The time at which the message at a position of a thread was written.
SELECT created_at FROM items WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s AND position = %(position)s

-- name: find_of_user
-- A user's profile, and whether facts have changed since it was written.
SELECT p.profile_id, p.user_id, p.agent_id, p.content, p.facts, p.writer, p.made_at, EXISTS (
    SELECT 1 FROM profile_changes c WHERE c.tenant_id = %(tenant_id)s AND c.profile_id = p.profile_id) AS is_stale
FROM profiles p WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s

-- name: find_of_agent
-- An agent's profile, and whether facts have changed since it was written.
SELECT p.profile_id, p.user_id, p.agent_id, p.content, p.facts, p.writer, p.made_at, EXISTS (
    SELECT 1 FROM profile_changes c WHERE c.tenant_id = %(tenant_id)s AND c.profile_id = p.profile_id) AS is_stale
FROM profiles p WHERE p.tenant_id = %(tenant_id)s AND p.agent_id = %(agent_id)s

-- name: look_at_user
-- A user's profile as above; without one, whether the user has facts or procedures.
SELECT p.profile_id, p.user_id, p.agent_id, p.content, p.facts, p.writer, p.made_at, EXISTS (
    SELECT 1 FROM profile_changes c WHERE c.tenant_id = %(tenant_id)s AND c.profile_id = p.profile_id) AS is_stale,
    p.profile_id IS NULL AND EXISTS (
        SELECT 1 FROM items
        WHERE tenant_id = %(tenant_id)s AND kind IN ('fact', 'procedure') AND scope = 'user' AND user_id = %(user_id)s
            AND live) AS is_due
FROM (SELECT) one LEFT JOIN LATERAL (
    SELECT * FROM profiles WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s OFFSET 0) p ON true

-- name: look_at_agent
-- An agent's profile as above; without one, whether the agent has facts or procedures.
SELECT p.profile_id, p.user_id, p.agent_id, p.content, p.facts, p.writer, p.made_at, EXISTS (
    SELECT 1 FROM profile_changes c WHERE c.tenant_id = %(tenant_id)s AND c.profile_id = p.profile_id) AS is_stale,
    p.profile_id IS NULL AND EXISTS (
        SELECT 1 FROM items
        WHERE tenant_id = %(tenant_id)s AND kind IN ('fact', 'procedure') AND scope = 'agent' AND agent_id = %(agent_id)s
            AND live) AS is_due
FROM (SELECT) one LEFT JOIN LATERAL (
    SELECT * FROM profiles WHERE tenant_id = %(tenant_id)s AND agent_id = %(agent_id)s OFFSET 0) p ON true

-- name: find_profiles
-- Profiles by id.
SELECT p.profile_id, p.user_id, p.agent_id, p.content, p.facts, p.writer, p.made_at, EXISTS (
    SELECT 1 FROM profile_changes c WHERE c.tenant_id = %(tenant_id)s AND c.profile_id = p.profile_id) AS is_stale
FROM profiles p WHERE p.tenant_id = %(tenant_id)s AND p.profile_id = ANY(%(profile_ids)s)

-- name: facts_of_owners
-- What users and agents said about each of these owners: pinned first, then as stated or extracted, by confidence, the newest.
SELECT o.place::integer AS place, f.item_id, f.kind, f.scope, f.content, f.trust, f.category, f.confidence,
    f.pinned_at IS NOT NULL AS pinned, f.stated, f.valid_at
FROM unnest(%(user_ids)s::text[], %(agent_ids)s::text[]) WITH ORDINALITY AS o (user_id, agent_id, place)
CROSS JOIN LATERAL (
    SELECT i.*, NOT i.metadata ? 'extractor' AS stated FROM (
        (SELECT * FROM items WHERE tenant_id = %(tenant_id)s AND kind IN ('fact', 'procedure') AND scope = 'user'
            AND user_id = o.user_id AND live AND trust IN ('user', 'agent') OFFSET 0)
        UNION ALL
        (SELECT * FROM items WHERE tenant_id = %(tenant_id)s AND kind IN ('fact', 'procedure') AND scope = 'agent'
            AND agent_id = o.agent_id AND live AND trust IN ('user', 'agent') OFFSET 0)) i
    ORDER BY i.pinned_at IS NOT NULL DESC, NOT i.metadata ? 'extractor' DESC, COALESCE(i.confidence, 0.9) DESC, i.valid_at DESC,
        i.item_id DESC LIMIT %(limit)s) f
ORDER BY o.place, f.pinned_at IS NOT NULL DESC, f.stated DESC, COALESCE(f.confidence, 0.9) DESC, f.valid_at DESC, f.item_id DESC

-- name: clear_changes
-- Clear the recorded changes; the profiles that are written next contain them.
DELETE FROM profile_changes WHERE tenant_id = %(tenant_id)s AND profile_id = ANY(%(profile_ids)s)

-- name: insert_profile
-- An empty profile; from now on changes of its owner's facts are recorded.
INSERT INTO profiles (tenant_id, profile_id, user_id, agent_id, content, facts, writer, made_at)
VALUES (%(tenant_id)s, %(profile_id)s, %(user_id)s, %(agent_id)s, '', 0, 'offline', %(made_at)s)
ON CONFLICT DO NOTHING

-- name: save_profiles
-- The new texts of profiles.
UPDATE profiles p SET content = g.content, facts = g.facts, writer = g.writer, made_at = g.made_at
FROM unnest(%(profile_ids)s::uuid[], %(contents)s::text[], %(facts)s::integer[], %(writers)s::text[],
    %(made_ats)s::timestamptz[]) AS g (profile_id, content, facts, writer, made_at)
WHERE p.tenant_id = %(tenant_id)s AND p.profile_id = g.profile_id
