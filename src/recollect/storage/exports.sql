-- name: export_users
-- Users, a page at a time.
SELECT user_id AS key, to_jsonb(t) - 'tenant_id' AS row FROM users t
WHERE tenant_id = %(tenant_id)s AND user_id > %(after)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY user_id LIMIT %(limit)s

-- name: export_agents
-- Definitions of agents, a page at a time; they belong to the tenant and not to one of its users.
SELECT agent_id AS key, to_jsonb(t) - 'tenant_id' AS row FROM agents t
WHERE tenant_id = %(tenant_id)s AND agent_id > %(after)s AND %(user_id)s::text IS NULL
ORDER BY agent_id LIMIT %(limit)s

-- name: export_sessions
-- Sessions, a page at a time.
SELECT session_ref::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM sessions t
WHERE tenant_id = %(tenant_id)s AND session_ref > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
    AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY session_ref LIMIT %(limit)s

-- name: export_runs
-- Runs with their turns and tool calls, a page at a time.
SELECT run_ref::text AS key, to_jsonb(t) - 'tenant_id' || jsonb_build_object(
    'turn_log', (SELECT COALESCE(jsonb_agg(to_jsonb(u) - 'tenant_id' ORDER BY u.number), '[]') FROM turns u
        WHERE u.tenant_id = t.tenant_id AND u.run_id = t.run_id),
    'tool_calls', (SELECT COALESCE(jsonb_agg(to_jsonb(c) - 'tenant_id' ORDER BY c.number), '[]') FROM tool_calls c
        WHERE c.tenant_id = t.tenant_id AND c.run_id = t.run_id)) AS row
FROM runs t
WHERE tenant_id = %(tenant_id)s AND run_ref > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
    AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY run_ref LIMIT %(limit)s

-- name: export_items
-- Items with what they rest on and the whole body behind them, a page at a time; what is derived or another tenant's is left out.
SELECT t.item_id::text AS key, p.object_key,
    to_jsonb(t) - '{tenant_id,live,tsv,terms,tokens,traits}'::text[] || jsonb_build_object(
        'evidence', (SELECT COALESCE(jsonb_agg(to_jsonb(e) - 'tenant_id' - 'item_id' ORDER BY e.source_item_id), '[]')
            FROM evidence e WHERE e.tenant_id = t.tenant_id AND e.item_id = t.item_id),
        'payload', CASE WHEN p.payload_key IS NOT NULL THEN jsonb_build_object(
            'payload_key', p.payload_key, 'media_type', p.media_type,
            'body', translate(encode(p.body, 'base64'), E'\n', '')) END) AS row
FROM items t LEFT JOIN LATERAL (
    SELECT * FROM payloads p WHERE p.tenant_id = t.tenant_id AND p.item_id = t.item_id LIMIT 1) p ON true
WHERE t.tenant_id = %(tenant_id)s AND t.shared_from IS NULL AND t.item_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
    AND (%(user_id)s::text IS NULL OR t.user_id = %(user_id)s OR (t.user_id IS NULL AND t.thread IN (
        SELECT 'session:' || s.session_id FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s)))
ORDER BY t.item_id LIMIT %(limit)s

-- name: export_notes
-- Notes of sessions, a page at a time.
SELECT t.session_id || chr(31) || t.note_id AS key, to_jsonb(t) - 'tenant_id' AS row FROM notes t
JOIN sessions s ON s.tenant_id = t.tenant_id AND s.session_id = t.session_id
WHERE t.tenant_id = %(tenant_id)s AND (t.session_id, t.note_id) > (
        split_part(%(after)s, chr(31), 1), COALESCE(NULLIF(split_part(%(after)s, chr(31), 2), ''),
            '00000000-0000-0000-0000-000000000000')::uuid)
    AND (%(user_id)s::text IS NULL OR s.user_id = %(user_id)s)
ORDER BY t.session_id, t.note_id LIMIT %(limit)s

-- name: export_state
-- Keys of state, a page at a time; their values as they were handed in.
SELECT concat_ws(chr(31), owner_kind, owner_id, t.key) AS key,
    to_jsonb(t) - 'tenant_id' - 'value' || jsonb_build_object('value_text', t.value::text) AS row FROM state t
WHERE tenant_id = %(tenant_id)s AND (owner_kind, owner_id, t.key) > (
        split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2), split_part(%(after)s, chr(31), 3))
    AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY owner_kind, owner_id, t.key LIMIT %(limit)s

-- name: has_tombstones
-- Whether the tenant has forgotten anything.
SELECT EXISTS (SELECT FROM tombstones WHERE tenant_id = %(tenant_id)s)

-- name: import_users
-- Users of an export who were not erased since.
INSERT INTO users SELECT g.* FROM jsonb_populate_recordset(NULL::users, %(rows)s) g
WHERE NOT is_erased_user(g.user_id, g.created_at)
ON CONFLICT (tenant_id, user_id) DO NOTHING

-- name: import_agents
-- Definitions of an export.
INSERT INTO agents SELECT g.* FROM jsonb_populate_recordset(NULL::agents, %(rows)s) g
ON CONFLICT (tenant_id, agent_id) DO NOTHING

-- name: import_sessions
-- Sessions of an export whose users were not erased since.
INSERT INTO sessions SELECT g.* FROM jsonb_populate_recordset(NULL::sessions, %(rows)s) g
WHERE g.user_id IS NULL OR NOT is_erased_user(g.user_id, g.opened_at)
ON CONFLICT DO NOTHING
RETURNING session_ref

-- name: import_runs
-- Runs of an export, in sessions that are here.
INSERT INTO runs SELECT g.* FROM jsonb_populate_recordset(NULL::runs, %(rows)s) g
WHERE (g.user_id IS NULL OR NOT is_erased_user(g.user_id, g.started_at)) AND EXISTS (
    SELECT FROM sessions s WHERE s.tenant_id = g.tenant_id AND s.session_id = g.session_id)
ON CONFLICT DO NOTHING

-- name: import_turns
-- Turns of runs that are here.
INSERT INTO turns SELECT g.* FROM jsonb_populate_recordset(NULL::turns, %(rows)s) g
WHERE EXISTS (SELECT FROM runs r WHERE r.tenant_id = g.tenant_id AND r.run_id = g.run_id)
ON CONFLICT DO NOTHING

-- name: import_tool_calls
-- Tool calls of runs that are here.
INSERT INTO tool_calls SELECT g.* FROM jsonb_populate_recordset(NULL::tool_calls, %(rows)s) g
WHERE EXISTS (SELECT FROM runs r WHERE r.tenant_id = g.tenant_id AND r.run_id = g.run_id)
ON CONFLICT DO NOTHING

-- name: import_notes
-- Notes of sessions that are here, unless what they were noted from was forgotten.
INSERT INTO notes SELECT g.* FROM jsonb_populate_recordset(NULL::notes, %(rows)s) g
WHERE EXISTS (SELECT FROM sessions s WHERE s.tenant_id = g.tenant_id AND s.session_id = g.session_id) AND NOT EXISTS (
    SELECT FROM tombstones t WHERE t.tenant_id = g.tenant_id AND t.item_id = g.item_id)
ON CONFLICT DO NOTHING

-- name: import_state_owners
-- Owners of the state of an export who were not erased since.
INSERT INTO state_owners (tenant_id, owner_kind, owner_id, user_id, version, written_at)
SELECT g.tenant_id, g.owner_kind, g.owner_id, max(g.user_id), max(g.version), max(g.updated_at)
FROM jsonb_populate_recordset(NULL::state, %(rows)s) g
WHERE g.user_id IS NULL OR NOT is_erased_user(g.user_id, g.updated_at)
GROUP BY g.tenant_id, g.owner_kind, g.owner_id
ON CONFLICT DO NOTHING

-- name: import_state
-- Keys of owners that are here.
INSERT INTO state (tenant_id, owner_kind, owner_id, key, user_id, value, bytes, version, updated_at, expires_at)
SELECT g.tenant_id, g.owner_kind, g.owner_id, g.key, g.user_id, g.value_text::json, g.bytes, g.version, g.updated_at, g.expires_at
FROM jsonb_to_recordset(%(rows)s) AS g (
    tenant_id uuid, owner_kind text, owner_id text, key text, user_id text, value_text text, bytes integer, version bigint,
    updated_at timestamptz, expires_at timestamptz)
WHERE EXISTS (
    SELECT FROM state_owners o
    WHERE o.tenant_id = g.tenant_id AND o.owner_kind = g.owner_kind AND o.owner_id = g.owner_id)
ON CONFLICT DO NOTHING

-- name: export_entries
-- Entries, a page at a time.
SELECT entry_id::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM entries t
WHERE tenant_id = %(tenant_id)s AND entry_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
    AND (%(user_id)s::text IS NULL OR (scope = 'user' AND owner_id = %(user_id)s))
ORDER BY entry_id LIMIT %(limit)s

-- name: import_entries
-- Entries of an export whose users were not erased since, and which were not forgotten; found by recall as far as their items are.
INSERT INTO entries (
    tenant_id, entry_id, scope, owner_id, path, namespace, key, value, version, item_id, ttl_seconds, created_at, updated_at,
    expires_at)
SELECT g.tenant_id, g.entry_id, g.scope, g.owner_id, g.path, g.namespace, g.key, g.value, g.version, i.item_id, g.ttl_seconds,
    g.created_at, g.updated_at, g.expires_at
FROM jsonb_populate_recordset(NULL::entries, %(rows)s) g
LEFT JOIN items i ON i.tenant_id = g.tenant_id AND i.item_id = g.item_id AND i.anonymized_at IS NULL
WHERE (g.scope <> 'user' OR NOT is_erased_user(g.owner_id, g.updated_at)) AND NOT EXISTS (
    SELECT FROM tombstones t WHERE t.tenant_id = g.tenant_id AND t.item_id = g.item_id)
ON CONFLICT DO NOTHING

-- name: import_items
-- Items of an export with their index columns; keys that exist are left alone, what was forgotten is left out.
INSERT INTO items (
    tenant_id, item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, source_id, thread, position,
    content, content_hash, speaker, trust, event_time, created_at, valid_at, invalid_at, superseded_by, subject, predicate,
    object, confidence, category, payload_key, metadata, archived_at, deleted_at, anonymized_at, extracted_at, judged_at,
    pinned_at, masked, tsv, terms, tokens, traits)
SELECT
    g.tenant_id, g.item_id, g.kind, g.scope, g.tier, g.user_id, g.agent_id, g.session_id, g.run_id, g.source_ref, g.source_id,
    g.thread, g.position, g.content, g.content_hash, g.speaker, g.trust, g.event_time, g.created_at, g.valid_at, g.invalid_at,
    g.superseded_by, g.subject, g.predicate, g.object, g.confidence, g.category, g.payload_key, g.metadata, g.archived_at,
    g.deleted_at, g.anonymized_at, g.extracted_at, g.judged_at, g.pinned_at, g.masked, g.tsv, g.terms, g.tokens, g.traits
FROM jsonb_populate_recordset(NULL::items, %(rows)s) g
ORDER BY g.item_id
ON CONFLICT DO NOTHING
RETURNING item_id

-- name: count_items
-- How many of these items are here.
SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND anonymized_at IS NULL

-- name: import_evidence
-- What items rest on, as far as both are here.
INSERT INTO evidence SELECT g.* FROM jsonb_populate_recordset(NULL::evidence, %(rows)s) g
JOIN items i ON i.tenant_id = g.tenant_id AND i.item_id = g.item_id AND i.anonymized_at IS NULL
JOIN items s ON s.tenant_id = g.tenant_id AND s.item_id = g.source_item_id AND s.anonymized_at IS NULL
ON CONFLICT DO NOTHING
