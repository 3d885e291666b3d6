-- name: sessions_of_hosts
-- Those of these sessions of a user that the hooks of a coding agent kept while they went on.
SELECT session_id FROM sessions
WHERE tenant_id = %(tenant_id)s AND session_id = ANY(%(session_ids)s) AND user_id IS NOT DISTINCT FROM %(user_id)s::text
    AND metadata ? 'host'

-- name: export_users
-- Users, a page at a time.
SELECT user_id AS key, to_jsonb(t) - 'tenant_id' AS row FROM users t
WHERE tenant_id = %(tenant_id)s AND user_id > %(after)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY user_id LIMIT %(limit)s

-- name: export_agents
-- Definitions of agents, a page at a time.
SELECT agent_id AS key, to_jsonb(t) - 'tenant_id' AS row FROM agents t
WHERE tenant_id = %(tenant_id)s AND agent_id > %(after)s
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
        WHERE u.tenant_id = %(tenant_id)s AND u.run_id = t.run_id AND u.owned_by = t.owned_by),
    'tool_calls', (SELECT COALESCE(jsonb_agg(to_jsonb(c) - 'tenant_id' ORDER BY c.number), '[]') FROM tool_calls c
        WHERE c.tenant_id = %(tenant_id)s AND c.run_id = t.run_id AND c.owned_by = t.owned_by)) AS row
FROM runs t
WHERE tenant_id = %(tenant_id)s AND run_ref > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
    AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY run_ref LIMIT %(limit)s

-- name: export_items
-- Items with the whole body behind them and how often they were recalled, a page at a time; not what is derived or another tenant's.
SELECT t.item_id::text AS key, p.object_key,
    to_jsonb(t) - '{tenant_id,owned_by,live,tsv,terms,tokens,traits}'::text[] || jsonb_build_object(
        'access', (SELECT to_jsonb(a) - '{tenant_id,item_id}'::text[] FROM access a
            WHERE a.tenant_id = t.tenant_id AND a.item_id = t.item_id),
        'payload', CASE WHEN p.payload_key IS NOT NULL THEN jsonb_build_object(
            'payload_key', p.payload_key, 'media_type', p.media_type,
            'body', translate(encode(p.body, 'base64'), E'\n', '')) END) AS row
FROM items t LEFT JOIN LATERAL (
    SELECT * FROM payloads p WHERE p.tenant_id = t.tenant_id AND p.item_id = t.item_id LIMIT 1) p ON true
WHERE t.tenant_id = %(tenant_id)s AND t.shared_from IS NULL AND t.item_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
    AND (%(user_id)s::text IS NULL OR t.user_id = %(user_id)s OR (t.user_id IS NULL AND t.thread IN (
        SELECT session_thread(s.owned_by, s.session_id) FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s)))
ORDER BY t.item_id LIMIT %(limit)s

-- name: export_notes
-- Notes of sessions, a page at a time.
SELECT concat_ws(chr(31), session_id, owned_by, note_id) AS key, to_jsonb(t) - 'tenant_id' AS row FROM notes t
WHERE tenant_id = %(tenant_id)s AND (session_id, owned_by, note_id) > (
        split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2),
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 3), ''), '00000000-0000-0000-0000-000000000000')::uuid)
    AND (%(user_id)s::text IS NULL OR owned_by = owner_of(%(user_id)s, NULL))
ORDER BY session_id, owned_by, note_id LIMIT %(limit)s

-- name: export_state
-- Keys of state, a page at a time; their values as they were handed in.
SELECT concat_ws(chr(31), owner_kind, owner_id, owned_by, t.key) AS key,
    to_jsonb(t) - 'tenant_id' - 'value' || jsonb_build_object('value_text', t.value::text) AS row FROM state t
WHERE tenant_id = %(tenant_id)s AND (owner_kind, owner_id, owned_by, t.key) > (
        split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2), split_part(%(after)s, chr(31), 3),
        split_part(%(after)s, chr(31), 4))
    AND (%(user_id)s::text IS NULL OR owned_by = owner_of(%(user_id)s, NULL))
ORDER BY owner_kind, owner_id, owned_by, t.key LIMIT %(limit)s

-- name: export_entries
-- Entries, a page at a time.
SELECT entry_id::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM entries t
WHERE tenant_id = %(tenant_id)s AND entry_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
    AND (%(user_id)s::text IS NULL OR (scope = 'user' AND owner_id = %(user_id)s))
ORDER BY entry_id LIMIT %(limit)s

-- name: export_tenant
-- The tenant's language and settings, once; its limits are the operator's and stay here.
SELECT tenant_id::text AS key, jsonb_build_object('language', language, 'settings', settings - %(quotas)s::text) AS row
FROM tenants WHERE tenant_id = %(tenant_id)s AND %(after)s = '' LIMIT %(limit)s

-- name: export_sources
-- Sources of knowledge, a page at a time; what they hold is counted again.
SELECT source_id::text AS key, to_jsonb(t) - '{tenant_id,documents,chunks,sync}'::text[] AS row FROM sources t
WHERE tenant_id = %(tenant_id)s AND source_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY source_id LIMIT %(limit)s

-- name: export_turn_states
-- Where the agents of sessions stand, a page at a time.
SELECT concat_ws(chr(31), session_id, owned_by) AS key, to_jsonb(t) - 'tenant_id' AS row FROM turn_states t
WHERE tenant_id = %(tenant_id)s AND (session_id, owned_by) > (split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2))
    AND (%(user_id)s::text IS NULL OR owned_by = owner_of(%(user_id)s, NULL))
ORDER BY session_id, owned_by LIMIT %(limit)s

-- name: export_evidence
-- What items rest on, a page at a time; apart from the items, because a source may come after what rests on it.
SELECT concat_ws(chr(31), e.item_id, e.source_item_id) AS key, to_jsonb(e) - 'tenant_id' AS row FROM evidence e
JOIN items t ON t.tenant_id = %(tenant_id)s AND t.item_id = e.item_id AND t.shared_from IS NULL
JOIN items o ON o.tenant_id = %(tenant_id)s AND o.item_id = e.source_item_id AND o.shared_from IS NULL
WHERE e.tenant_id = %(tenant_id)s AND (e.item_id, e.source_item_id) > (
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 1), ''), '00000000-0000-0000-0000-000000000000')::uuid,
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 2), ''), '00000000-0000-0000-0000-000000000000')::uuid)
    AND (%(user_id)s::text IS NULL OR t.user_id = %(user_id)s OR (t.user_id IS NULL AND t.thread IN (
        SELECT session_thread(s.owned_by, s.session_id) FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s)))
ORDER BY e.item_id, e.source_item_id LIMIT %(limit)s

-- name: export_state_owners
-- Whatever owns state, a page at a time.
SELECT concat_ws(chr(31), owner_kind, owner_id, owned_by) AS key, to_jsonb(t) - 'tenant_id' AS row FROM state_owners t
WHERE tenant_id = %(tenant_id)s AND (owner_kind, owner_id, owned_by) > (
        split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2), split_part(%(after)s, chr(31), 3))
    AND (%(user_id)s::text IS NULL OR owned_by = owner_of(%(user_id)s, NULL))
ORDER BY owner_kind, owner_id, owned_by LIMIT %(limit)s

-- name: export_documents
-- Documents at their present revision, a page at a time.
SELECT document_id::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM documents t
WHERE tenant_id = %(tenant_id)s AND document_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY document_id LIMIT %(limit)s

-- name: export_chunks
-- Where the chunks of documents stand, a page at a time.
SELECT concat_ws(chr(31), document_id, ordinal) AS key, to_jsonb(t) - 'tenant_id' AS row FROM document_chunks t
WHERE tenant_id = %(tenant_id)s AND (document_id, ordinal) > (
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 1), ''), '00000000-0000-0000-0000-000000000000')::uuid,
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 2), ''), '-1')::integer)
ORDER BY document_id, ordinal LIMIT %(limit)s

-- name: export_files
-- The originals of documents, a page at a time.
SELECT p.document_id::text AS key, p.object_key, jsonb_build_object(
    'document_id', p.document_id, 'revision', d.revision, 'media_type', p.media_type,
    'body', translate(encode(p.body, 'base64'), E'\n', '')) AS row
FROM payloads p JOIN documents d ON d.tenant_id = %(tenant_id)s AND d.document_id = p.document_id
WHERE p.tenant_id = %(tenant_id)s AND p.document_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY p.document_id LIMIT %(limit)s

-- name: export_protected_sources
-- Sources that memory must not copy, a page at a time; their texts are the chunks.
SELECT source_id::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM protected_sources t
WHERE tenant_id = %(tenant_id)s AND source_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY source_id LIMIT %(limit)s

-- name: export_feedback
-- What people think of items, a page at a time.
SELECT concat_ws(chr(31), f.item_id, f.given_by) AS key, to_jsonb(f) - 'tenant_id' AS row FROM feedback f
JOIN items t ON t.tenant_id = %(tenant_id)s AND t.item_id = f.item_id AND t.shared_from IS NULL
WHERE f.tenant_id = %(tenant_id)s AND (f.item_id, f.given_by) > (
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 1), ''), '00000000-0000-0000-0000-000000000000')::uuid,
        split_part(%(after)s, chr(31), 2))
    AND (%(user_id)s::text IS NULL OR substr(f.given_by, strpos(f.given_by, ':') + 1) = %(user_id)s)
ORDER BY f.item_id, f.given_by LIMIT %(limit)s

-- name: export_holds
-- Which actions rest on which items, a page at a time.
SELECT concat_ws(chr(31), h.item_id, h.action_id) AS key, to_jsonb(h) - 'tenant_id' AS row FROM holds h
JOIN items t ON t.tenant_id = %(tenant_id)s AND t.item_id = h.item_id AND t.shared_from IS NULL
WHERE h.tenant_id = %(tenant_id)s AND (h.item_id, h.action_id) > (
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 1), ''), '00000000-0000-0000-0000-000000000000')::uuid,
        split_part(%(after)s, chr(31), 2))
ORDER BY h.item_id, h.action_id LIMIT %(limit)s

-- name: export_questions
-- Standing questions, a page at a time; their answers are found again.
SELECT question_id::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM questions t
WHERE tenant_id = %(tenant_id)s AND question_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY question_id LIMIT %(limit)s

-- name: export_workflows
-- Versions of workflows with what was believed before any outcome, a page at a time; a successor before what it succeeds.
SELECT concat_ws(chr(31), agent_type, task_type, name, version) AS key,
    to_jsonb(t) - '{tenant_id,spec,spec_hash,alpha,beta,rewards}'::text[] || jsonb_build_object(
        'spec_text', t.spec::text,
        'prior_alpha', trim_scale(t.alpha - o.score)::text, 'prior_beta', trim_scale(t.beta - (o.times - o.score))::text) AS row
FROM workflows t CROSS JOIN LATERAL (
    SELECT COALESCE(sum(o.score), 0) AS score, count(*) AS times FROM outcomes o
    WHERE o.tenant_id = t.tenant_id AND o.workflow_id = t.workflow_id) o
WHERE tenant_id = %(tenant_id)s AND (agent_type, task_type, name, -version) > (
        split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2), split_part(%(after)s, chr(31), 3),
        -COALESCE(NULLIF(split_part(%(after)s, chr(31), 4), ''), '0')::integer)
ORDER BY agent_type, task_type, name, version DESC LIMIT %(limit)s

-- name: export_choices
-- Choices among workflows, a page at a time.
SELECT choice_id::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM choices t
WHERE tenant_id = %(tenant_id)s AND choice_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY choice_id LIMIT %(limit)s

-- name: export_outcomes
-- What came of workflows, a page at a time.
SELECT concat_ws(chr(31), outcome_id, owned_by) AS key, to_jsonb(t) - 'tenant_id' AS row FROM outcomes t
WHERE tenant_id = %(tenant_id)s AND (outcome_id, owned_by) > (split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2))
ORDER BY outcome_id, owned_by LIMIT %(limit)s

-- name: export_proposals
-- Proposals with the items they are about, a page at a time.
SELECT proposal_id::text AS key, to_jsonb(t) - 'tenant_id' || jsonb_build_object('items', (
    SELECT COALESCE(jsonb_agg(to_jsonb(n) - '{tenant_id,proposal_id}'::text[] ORDER BY n.item_id), '[]') FROM proposal_inputs n
    WHERE n.tenant_id = t.tenant_id AND n.proposal_id = t.proposal_id)) AS row FROM proposals t
WHERE tenant_id = %(tenant_id)s AND proposal_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY proposal_id LIMIT %(limit)s

-- name: export_reports
-- Reports, a page at a time.
SELECT report_id::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM reports t
WHERE tenant_id = %(tenant_id)s AND report_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY report_id LIMIT %(limit)s

-- name: has_tombstones
-- Whether the tenant has forgotten anything.
SELECT EXISTS (SELECT 1 FROM tombstones WHERE tenant_id = %(tenant_id)s)

-- name: import_users
-- Users of an export who were not erased since.
INSERT INTO users SELECT g.* FROM tenants t CROSS JOIN jsonb_populate_recordset(NULL::users, %(rows)s) g
WHERE t.tenant_id = %(tenant_id)s AND NOT is_erased_user(g.user_id, g.created_at)
ON CONFLICT (tenant_id, user_id) DO NOTHING
RETURNING 1

-- name: import_agents
-- Definitions of an export.
INSERT INTO agents SELECT g.* FROM jsonb_populate_recordset(NULL::agents, %(rows)s) g
ON CONFLICT (tenant_id, agent_id) DO NOTHING
RETURNING 1

-- name: import_sessions
-- Sessions of an export whose users were not erased since.
INSERT INTO sessions SELECT g.* FROM tenants t CROSS JOIN jsonb_populate_recordset(NULL::sessions, %(rows)s) g
WHERE t.tenant_id = %(tenant_id)s AND (g.user_id IS NULL OR NOT is_erased_user(g.user_id, g.opened_at))
ON CONFLICT DO NOTHING
RETURNING session_ref

-- name: import_runs
-- Runs of an export, in sessions that are here.
INSERT INTO runs SELECT g.* FROM jsonb_populate_recordset(NULL::runs, %(rows)s) g
WHERE (g.user_id IS NULL OR NOT is_erased_user(g.user_id, g.started_at)) AND EXISTS (
    SELECT 1 FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.session_id = g.session_id AND s.owned_by = g.owned_by)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_turns
-- Turns of runs that are here.
INSERT INTO turns SELECT g.* FROM jsonb_populate_recordset(NULL::turns, %(rows)s) g
WHERE EXISTS (SELECT 1 FROM runs r WHERE r.tenant_id = %(tenant_id)s AND r.run_id = g.run_id AND r.owned_by = g.owned_by)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_tool_calls
-- Tool calls of runs that are here.
INSERT INTO tool_calls SELECT g.* FROM jsonb_populate_recordset(NULL::tool_calls, %(rows)s) g
WHERE EXISTS (SELECT 1 FROM runs r WHERE r.tenant_id = %(tenant_id)s AND r.run_id = g.run_id AND r.owned_by = g.owned_by)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_notes
-- Notes of sessions that are here, unless what they were noted from was forgotten; a user's export: of that user's sessions.
INSERT INTO notes SELECT g.* FROM jsonb_populate_recordset(NULL::notes, %(rows)s) g
WHERE EXISTS (
    SELECT 1 FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.session_id = g.session_id AND s.owned_by = g.owned_by
        AND (%(user_id)s::text IS NULL OR s.user_id = %(user_id)s)) AND NOT EXISTS (
    SELECT 1 FROM tombstones t WHERE t.tenant_id = %(tenant_id)s AND t.item_id = g.item_id)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_state_owners
-- Owners of the state of an export who were not erased since. Those that are here are written anew, which changes their `xmin`: keys
-- are about to be added to them.
INSERT INTO state_owners (tenant_id, owner_kind, owner_id, owned_by, version, written_at)
SELECT g.tenant_id, g.owner_kind, g.owner_id, g.owned_by, max(g.version), max(g.updated_at)
FROM tenants t CROSS JOIN jsonb_populate_recordset(NULL::state, %(rows)s) g
WHERE t.tenant_id = %(tenant_id)s AND NOT is_erased_owner(g.owned_by, g.updated_at)
GROUP BY g.tenant_id, g.owner_kind, g.owner_id, g.owned_by
ON CONFLICT (tenant_id, owner_kind, owner_id, owned_by) DO UPDATE SET version = state_owners.version
RETURNING 1

-- name: import_state
-- Keys of owners that are here.
INSERT INTO state (tenant_id, owner_kind, owner_id, owned_by, key, value, bytes, version, updated_at, expires_at)
SELECT g.tenant_id, g.owner_kind, g.owner_id, g.owned_by, g.key, g.value_text::json, g.bytes, g.version, g.updated_at, g.expires_at
FROM jsonb_to_recordset(%(rows)s) AS g (
    tenant_id uuid, owner_kind text, owner_id text, owned_by text, key text, value_text text, bytes integer, version bigint,
    updated_at timestamptz, expires_at timestamptz)
WHERE EXISTS (
    SELECT 1 FROM state_owners o
    WHERE o.tenant_id = %(tenant_id)s AND o.owner_kind = g.owner_kind AND o.owner_id = g.owner_id AND o.owned_by = g.owned_by)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_entries
-- Entries of an export whose users were not erased since, and which were not forgotten; found by recall as far as their items are.
INSERT INTO entries (
    tenant_id, entry_id, scope, owner_id, path, namespace, key, value, version, item_id, ttl_seconds, created_at, updated_at,
    expires_at)
SELECT g.tenant_id, g.entry_id, g.scope, g.owner_id, g.path, g.namespace, g.key, g.value, g.version, i.item_id, g.ttl_seconds,
    g.created_at, g.updated_at, g.expires_at
FROM jsonb_populate_recordset(NULL::entries, %(rows)s) g
LEFT JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
WHERE (g.scope <> 'user' OR NOT is_erased_user(g.owner_id, g.updated_at)) AND NOT EXISTS (
    SELECT 1 FROM tombstones t WHERE t.tenant_id = %(tenant_id)s AND t.item_id = g.item_id)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_items
-- Items of an export with their index columns; what is here is left alone, and what was forgotten or is not the user's is left out.
INSERT INTO items (
    tenant_id, position, {written_columns}, created_at, invalid_at, retired_at, superseded_by, archived_at, deleted_at, anonymized_at,
    extracted_at, judged_at, pinned_at)
SELECT
    g.tenant_id, g.position, {g.written_columns}, g.created_at, g.invalid_at,
    CASE WHEN g.invalid_at IS NOT NULL THEN COALESCE(g.retired_at, GREATEST(g.invalid_at, g.created_at)) END,
    g.superseded_by, g.archived_at, g.deleted_at, g.anonymized_at, g.extracted_at, g.judged_at, g.pinned_at
FROM jsonb_populate_recordset(NULL::items, %(rows)s) g
-- What is here already is not even tried: the guards that look at a new row would refuse what they let in when it was new.
WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id)
    AND NOT EXISTS (
        SELECT 1 FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.owned_by = item_owner(g.kind, g.scope, g.user_id, g.agent_id)
            AND i.kind = g.kind AND i.source_ref = g.source_ref)
    AND (%(user_id)s::text IS NULL OR g.user_id = %(user_id)s OR g.thread IN (
        SELECT session_thread(s.owned_by, s.session_id) FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s))
ORDER BY g.item_id
ON CONFLICT DO NOTHING
RETURNING item_id

-- name: count_items
-- How many of these items are here.
SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND anonymized_at IS NULL

-- name: import_evidence
-- What items rest on, as far as both are here; by a user's export only what that user's items rest on.
INSERT INTO evidence SELECT g.* FROM jsonb_populate_recordset(NULL::evidence, %(rows)s) g
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
JOIN items o ON o.tenant_id = %(tenant_id)s AND o.item_id = g.source_item_id AND o.anonymized_at IS NULL
WHERE (%(user_id)s::text IS NULL OR i.user_id = %(user_id)s OR (i.user_id IS NULL AND i.thread IN (
    SELECT session_thread(s.owned_by, s.session_id) FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s)))
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_tenant
-- Language and settings of an export, for a tenant that has neither settings of its own nor memory; limits stay the operator's.
UPDATE tenants t SET settings = t.settings || %(settings)s::jsonb, language = CASE
    WHEN EXISTS (SELECT 1 FROM pg_ts_config WHERE cfgname = %(language)s) THEN %(language)s ELSE t.language END
WHERE t.tenant_id = %(tenant_id)s AND t.settings - %(quotas)s::text = '{}'
    AND NOT EXISTS (SELECT 1 FROM items i WHERE i.tenant_id = t.tenant_id)

-- name: import_sources
-- Sources of an export; they hold nothing yet.
INSERT INTO sources (tenant_id, source_id, name, kind, description, tool, folder, created_at, updated_at)
SELECT g.tenant_id, g.source_id, g.name, g.kind, g.description, g.tool, g.folder, g.created_at, g.updated_at
FROM jsonb_populate_recordset(NULL::sources, %(rows)s) g
ON CONFLICT DO NOTHING
RETURNING 1

-- name: same_sources
-- The sources that are here under the name and kind of one of an export, but another id.
SELECT g.source_id AS given, s.source_id AS here FROM jsonb_populate_recordset(NULL::sources, %(rows)s) g
JOIN sources s ON s.tenant_id = %(tenant_id)s AND s.name = g.name AND s.kind = g.kind AND s.source_id <> g.source_id

-- name: import_turn_states
-- Where agents stand, in sessions that are here; a user's export: in that user's.
INSERT INTO turn_states SELECT g.* FROM jsonb_populate_recordset(NULL::turn_states, %(rows)s) g
WHERE EXISTS (
    SELECT 1 FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.session_id = g.session_id AND s.owned_by = g.owned_by
        AND (%(user_id)s::text IS NULL OR s.user_id = %(user_id)s))
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_access
-- How often items were recalled that this import wrote.
INSERT INTO access SELECT g.* FROM jsonb_populate_recordset(NULL::access, %(rows)s) g
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_owners
-- Whatever owned state, unless its user was erased since.
INSERT INTO state_owners SELECT g.* FROM tenants t CROSS JOIN jsonb_populate_recordset(NULL::state_owners, %(rows)s) g
WHERE t.tenant_id = %(tenant_id)s AND NOT is_erased_owner(g.owned_by, g.written_at)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_documents
-- Documents in sources that are here, as far as any of their chunks stands: what was deleted or forgotten here stays so.
WITH written AS (
    INSERT INTO documents SELECT g.* FROM jsonb_populate_recordset(NULL::documents, %(rows)s) g
    JOIN sources s ON s.tenant_id = %(tenant_id)s AND s.source_id = g.source_id AND s.kind = 'documents'
    WHERE EXISTS (
        SELECT 1 FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.thread = 'document:' || g.document_id
            AND i.kind = 'document_chunk' AND i.live)
    ON CONFLICT DO NOTHING
    RETURNING document_id, source_id, chunks
), counted AS (
    UPDATE sources s SET documents = s.documents + n.documents, chunks = s.chunks + n.chunks
    FROM (SELECT source_id, count(*) AS documents, sum(chunks) AS chunks FROM written GROUP BY source_id) n
    WHERE s.tenant_id = %(tenant_id)s AND s.source_id = n.source_id
)
SELECT document_id FROM written

-- name: chunks_of_none
-- Chunks of documents that were not taken over, because another of the same name is here.
SELECT i.item_id FROM unnest(%(document_ids)s::uuid[]) AS g (document_id)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.thread = 'document:' || g.document_id AND i.kind = 'document_chunk'
WHERE NOT EXISTS (SELECT 1 FROM documents d WHERE d.tenant_id = %(tenant_id)s AND d.document_id = g.document_id)

-- name: import_chunks
-- Where chunks stand that are here, in documents that are here.
INSERT INTO document_chunks SELECT g.* FROM jsonb_populate_recordset(NULL::document_chunks, %(rows)s) g
JOIN documents d ON d.tenant_id = %(tenant_id)s AND d.document_id = g.document_id
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.kind = 'document_chunk' AND i.live
    AND i.thread = 'document:' || g.document_id AND i.position = g.ordinal + 1
ON CONFLICT DO NOTHING
RETURNING 1

-- name: lacks_file
-- Whether a document is here at that revision without its file, though it is whole and nothing was taken out of it.
SELECT true FROM documents d
WHERE d.tenant_id = %(tenant_id)s AND d.document_id = %(document_id)s AND d.revision = %(revision)s
    AND NOT EXISTS (SELECT 1 FROM payloads p WHERE p.tenant_id = %(tenant_id)s AND p.document_id = d.document_id)
    AND d.chunks = (
        SELECT count(*) FROM document_chunks c JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = c.item_id
        WHERE c.tenant_id = %(tenant_id)s AND c.document_id = d.document_id AND i.live AND i.masked IS NULL)
FOR UPDATE OF d

-- name: import_protected_sources
-- Sources that memory must not copy.
INSERT INTO protected_sources SELECT g.* FROM jsonb_populate_recordset(NULL::protected_sources, %(rows)s) g
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_protected_texts
-- The texts of those sources that are here already.
INSERT INTO protected_texts (tenant_id, item_id, source_id, content)
SELECT i.tenant_id, i.item_id, i.source_id, i.content FROM jsonb_populate_recordset(NULL::protected_sources, %(rows)s) g
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.source_id = g.source_id AND i.kind = 'document_chunk' AND i.live
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_feedback
-- What people who were not erased since think of items that are here.
INSERT INTO feedback SELECT g.* FROM jsonb_populate_recordset(NULL::feedback, %(rows)s) g
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
WHERE NOT is_erased_user(substr(g.given_by, strpos(g.given_by, ':') + 1), g.given_at)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_holds
-- Which actions rest on items that are here.
INSERT INTO holds SELECT g.* FROM jsonb_populate_recordset(NULL::holds, %(rows)s) g
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_questions
-- Standing questions whose name is not taken here.
INSERT INTO questions SELECT g.* FROM jsonb_populate_recordset(NULL::questions, %(rows)s) g
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_workflows
-- Versions of workflows as they were before any outcome; which were written.
INSERT INTO workflows (
    tenant_id, workflow_id, agent_type, task_type, name, version, spec, spec_hash, alpha, beta, valid_at, invalid_at)
SELECT g.tenant_id, g.workflow_id, g.agent_type, g.task_type, g.name, g.version, g.spec_text::json, g.spec_hash,
    g.prior_alpha, g.prior_beta, g.valid_at, g.invalid_at
FROM jsonb_to_recordset(%(rows)s) AS g (
    tenant_id uuid, workflow_id uuid, agent_type text, task_type text, name text, version integer, spec_text text,
    spec_hash bytea, prior_alpha numeric, prior_beta numeric, valid_at timestamptz, invalid_at timestamptz)
ON CONFLICT DO NOTHING
RETURNING workflow_id

-- name: link_workflows
-- Which versions took the place of those that were written, as far as they are here.
UPDATE workflows p SET superseded_by = s.workflow_id FROM jsonb_populate_recordset(NULL::workflows, %(rows)s) g
JOIN workflows s ON s.tenant_id = %(tenant_id)s AND s.workflow_id = g.superseded_by
WHERE p.tenant_id = %(tenant_id)s AND p.workflow_id = g.workflow_id AND p.workflow_id = ANY(%(workflow_ids)s)
    AND p.invalid_at IS NOT NULL AND (s.agent_type, s.task_type, s.name) = (p.agent_type, p.task_type, p.name)
    AND s.version > p.version

-- name: import_choices
-- Choices among workflows that are here; once anything was forgotten, without ids of sessions and runs that are not here.
INSERT INTO choices (tenant_id, choice_id, workflow_id, owned_by, agent_id, session_id, run_id, sample, candidates, chosen_at)
SELECT g.tenant_id, g.choice_id, g.workflow_id,
    CASE WHEN is_erased_owner(g.owned_by, g.chosen_at) THEN 'tenant' ELSE g.owned_by END, g.agent_id, CASE WHEN k.is_told THEN g.session_id END,
    CASE WHEN k.is_told THEN g.run_id END, g.sample, g.candidates, g.chosen_at
FROM jsonb_populate_recordset(NULL::choices, %(rows)s) g
CROSS JOIN LATERAL (SELECT NOT EXISTS (SELECT 1 FROM tombstones b WHERE b.tenant_id = %(tenant_id)s) OR EXISTS (
    SELECT 1 FROM sessions s
    WHERE s.tenant_id = %(tenant_id)s AND s.session_id = g.session_id AND s.owned_by = g.owned_by) AS is_told) k
JOIN workflows p ON p.tenant_id = %(tenant_id)s AND p.workflow_id = g.workflow_id
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_outcomes
-- What came of workflows that are here: each outcome that is new moves what is believed, as when it was given.
WITH noted AS (
    INSERT INTO outcomes (tenant_id, outcome_id, owned_by, workflow_id, choice_id, score, rewarded_at)
    SELECT g.tenant_id, g.outcome_id, g.owned_by, g.workflow_id, g.choice_id, g.score, g.rewarded_at
    FROM jsonb_populate_recordset(NULL::outcomes, %(rows)s) g
    JOIN workflows p ON p.tenant_id = %(tenant_id)s AND p.workflow_id = g.workflow_id
    WHERE NOT is_erased_owner(g.owned_by, g.rewarded_at)
    ON CONFLICT DO NOTHING
    RETURNING outcome_id, workflow_id, score
), moved AS (
    UPDATE workflows p SET alpha = p.alpha + n.score, beta = p.beta + n.times - n.score, rewards = p.rewards + n.times
    FROM (SELECT workflow_id, sum(score) AS score, count(*) AS times FROM noted GROUP BY workflow_id) n
    WHERE p.tenant_id = %(tenant_id)s AND p.workflow_id = n.workflow_id
)
SELECT outcome_id FROM noted

-- name: import_proposals
-- Proposals of which every item is here; which were written. Whoever was erased since is not named.
INSERT INTO proposals (
    tenant_id, proposal_id, kind, status, rule, key, successor_id, inputs, links_made, proposed_at, decided_at, decided_by, reason)
SELECT g.tenant_id, g.proposal_id, g.kind, g.status, g.rule, g.key, g.successor_id, g.inputs, g.links_made, g.proposed_at,
    g.decided_at, CASE
        WHEN NOT is_erased_user(substr(g.decided_by, strpos(g.decided_by, ':') + 1), g.decided_at) THEN g.decided_by END, g.reason
FROM jsonb_array_elements(%(rows)s::jsonb) AS r (said) CROSS JOIN LATERAL jsonb_populate_record(NULL::proposals, r.said) g
WHERE NOT EXISTS (
    SELECT 1 FROM jsonb_populate_recordset(NULL::proposal_inputs, r.said -> 'items') n
    WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.item_id = n.item_id))
ON CONFLICT DO NOTHING
RETURNING proposal_id

-- name: import_proposal_inputs
-- How the items of proposals stood that were written.
INSERT INTO proposal_inputs (tenant_id, proposal_id, item_id, tier, sources, confidence)
SELECT %(tenant_id)s, (r.said ->> 'proposal_id')::uuid, n.item_id, n.tier, n.sources, n.confidence
FROM jsonb_array_elements(%(rows)s::jsonb) AS r (said)
CROSS JOIN LATERAL jsonb_populate_recordset(NULL::proposal_inputs, r.said -> 'items') n
WHERE (r.said ->> 'proposal_id')::uuid = ANY(%(proposal_ids)s)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: import_reports
-- Reports of days that have none here.
INSERT INTO reports SELECT g.* FROM jsonb_populate_recordset(NULL::reports, %(rows)s) g
ON CONFLICT DO NOTHING
RETURNING 1
