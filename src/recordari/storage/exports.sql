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
        WHERE u.tenant_id = t.tenant_id AND u.run_id = t.run_id),
    'tool_calls', (SELECT COALESCE(jsonb_agg(to_jsonb(c) - 'tenant_id' ORDER BY c.number), '[]') FROM tool_calls c
        WHERE c.tenant_id = t.tenant_id AND c.run_id = t.run_id)) AS row
FROM runs t
WHERE tenant_id = %(tenant_id)s AND run_ref > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
    AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY run_ref LIMIT %(limit)s

-- name: export_items
-- Items with the whole body behind them and how often they were recalled, a page at a time; not what is derived or another tenant's.
SELECT t.item_id::text AS key, p.object_key,
    to_jsonb(t) - '{tenant_id,live,tsv,terms,tokens,traits}'::text[] || jsonb_build_object(
        'access', (SELECT to_jsonb(a) - '{tenant_id,item_id}'::text[] FROM access a
            WHERE a.tenant_id = t.tenant_id AND a.item_id = t.item_id),
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
SELECT t.session_id AS key, to_jsonb(t) - 'tenant_id' AS row FROM turn_states t
JOIN sessions s ON s.tenant_id = t.tenant_id AND s.session_id = t.session_id
WHERE t.tenant_id = %(tenant_id)s AND t.session_id > %(after)s AND (%(user_id)s::text IS NULL OR s.user_id = %(user_id)s)
ORDER BY t.session_id LIMIT %(limit)s

-- name: export_evidence
-- What items rest on, a page at a time; apart from the items, because a source may come after what rests on it.
SELECT concat_ws(chr(31), e.item_id, e.source_item_id) AS key, to_jsonb(e) - 'tenant_id' AS row FROM evidence e
JOIN items t ON t.tenant_id = e.tenant_id AND t.item_id = e.item_id AND t.shared_from IS NULL
JOIN items o ON o.tenant_id = e.tenant_id AND o.item_id = e.source_item_id AND o.shared_from IS NULL
WHERE e.tenant_id = %(tenant_id)s AND (e.item_id, e.source_item_id) > (
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 1), ''), '00000000-0000-0000-0000-000000000000')::uuid,
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 2), ''), '00000000-0000-0000-0000-000000000000')::uuid)
    AND (%(user_id)s::text IS NULL OR t.user_id = %(user_id)s OR (t.user_id IS NULL AND t.thread IN (
        SELECT 'session:' || s.session_id FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s)))
ORDER BY e.item_id, e.source_item_id LIMIT %(limit)s

-- name: export_state_owners
-- Whatever owns state, a page at a time.
SELECT concat_ws(chr(31), owner_kind, owner_id) AS key, to_jsonb(t) - 'tenant_id' AS row FROM state_owners t
WHERE tenant_id = %(tenant_id)s AND (owner_kind, owner_id) > (split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2))
    AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY owner_kind, owner_id LIMIT %(limit)s

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
FROM payloads p JOIN documents d ON d.tenant_id = p.tenant_id AND d.document_id = p.document_id
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
JOIN items t ON t.tenant_id = f.tenant_id AND t.item_id = f.item_id AND t.shared_from IS NULL
WHERE f.tenant_id = %(tenant_id)s AND (f.item_id, f.given_by) > (
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 1), ''), '00000000-0000-0000-0000-000000000000')::uuid,
        split_part(%(after)s, chr(31), 2))
    AND (%(user_id)s::text IS NULL OR substr(f.given_by, strpos(f.given_by, ':') + 1) = %(user_id)s)
ORDER BY f.item_id, f.given_by LIMIT %(limit)s

-- name: export_holds
-- Which actions rest on which items, a page at a time.
SELECT concat_ws(chr(31), h.item_id, h.action_id) AS key, to_jsonb(h) - 'tenant_id' AS row FROM holds h
JOIN items t ON t.tenant_id = h.tenant_id AND t.item_id = h.item_id AND t.shared_from IS NULL
WHERE h.tenant_id = %(tenant_id)s AND (h.item_id, h.action_id) > (
        COALESCE(NULLIF(split_part(%(after)s, chr(31), 1), ''), '00000000-0000-0000-0000-000000000000')::uuid,
        split_part(%(after)s, chr(31), 2))
ORDER BY h.item_id, h.action_id LIMIT %(limit)s

-- name: export_procedures
-- Versions of procedures with what was believed before any outcome, a page at a time; a successor before what it succeeds.
SELECT concat_ws(chr(31), agent_type, task_type, name, version) AS key,
    to_jsonb(t) - '{tenant_id,spec,spec_hash,alpha,beta,rewards}'::text[] || jsonb_build_object(
        'spec_text', t.spec::text,
        'prior_alpha', trim_scale(t.alpha - o.score)::text, 'prior_beta', trim_scale(t.beta - (o.times - o.score))::text) AS row
FROM procedures t CROSS JOIN LATERAL (
    SELECT COALESCE(sum(o.score), 0) AS score, count(*) AS times FROM outcomes o
    WHERE o.tenant_id = t.tenant_id AND o.procedure_id = t.procedure_id) o
WHERE tenant_id = %(tenant_id)s AND (agent_type, task_type, name, -version) > (
        split_part(%(after)s, chr(31), 1), split_part(%(after)s, chr(31), 2), split_part(%(after)s, chr(31), 3),
        -COALESCE(NULLIF(split_part(%(after)s, chr(31), 4), ''), '0')::integer)
ORDER BY agent_type, task_type, name, version DESC LIMIT %(limit)s

-- name: export_choices
-- Choices among procedures, a page at a time.
SELECT choice_id::text AS key, to_jsonb(t) - 'tenant_id' AS row FROM choices t
WHERE tenant_id = %(tenant_id)s AND choice_id > COALESCE(NULLIF(%(after)s, ''), '00000000-0000-0000-0000-000000000000')::uuid
ORDER BY choice_id LIMIT %(limit)s

-- name: export_outcomes
-- What came of procedures, a page at a time.
SELECT outcome_id AS key, to_jsonb(t) - 'tenant_id' AS row FROM outcomes t
WHERE tenant_id = %(tenant_id)s AND outcome_id > %(after)s
ORDER BY outcome_id LIMIT %(limit)s

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
