-- name: insert_tenant
-- A new tenant; no row when it exists.
INSERT INTO tenants (tenant_id, name, language, plan) VALUES (%(tenant_id)s, %(name)s, %(language)s, %(plan)s)
ON CONFLICT (tenant_id) DO NOTHING

-- name: find_tenant
-- The tenant of this transaction.
SELECT tenant_id, name, language, plan, settings, created_at FROM tenants WHERE tenant_id = %(tenant_id)s

-- name: update_tenant
-- Change language, plan or settings of the tenant.
UPDATE tenants SET
    language = COALESCE(%(language)s, language),
    plan = COALESCE(%(plan)s, plan),
    settings = settings || COALESCE(%(settings)s::jsonb, '{}')
WHERE tenant_id = %(tenant_id)s
RETURNING tenant_id, name, language, plan, settings, created_at

-- name: has_language
-- Whether the server has a text search configuration of that name.
SELECT EXISTS (SELECT 1 FROM pg_ts_config WHERE cfgname = %(language)s)

-- name: insert_user
-- A new user; no row when it exists.
INSERT INTO users (tenant_id, user_id) VALUES (%(tenant_id)s, %(user_id)s) ON CONFLICT (tenant_id, user_id) DO NOTHING

-- name: save_user
-- Create or change a user.
INSERT INTO users (tenant_id, user_id, display_name, time_zone)
VALUES (%(tenant_id)s, %(user_id)s, %(display_name)s, COALESCE(%(time_zone)s, 'UTC'))
ON CONFLICT (tenant_id, user_id) DO UPDATE SET
    display_name = COALESCE(excluded.display_name, users.display_name),
    time_zone = COALESCE(%(time_zone)s, users.time_zone)
RETURNING user_id, display_name, time_zone, created_at

-- name: find_user
-- One user.
SELECT user_id, display_name, time_zone, created_at FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s

-- name: list_users
-- Users by id, a page at a time.
SELECT user_id, display_name, time_zone, created_at FROM users
WHERE tenant_id = %(tenant_id)s AND user_id > %(after)s ORDER BY user_id LIMIT %(limit)s

-- name: save_agent
-- Create or replace an agent's definition; its version counts the changes.
INSERT INTO agents (tenant_id, agent_id, display_name, core, characteristics, model, window_tokens)
VALUES (%(tenant_id)s, %(agent_id)s, %(display_name)s, %(core)s, %(characteristics)s, %(model)s, %(window_tokens)s)
ON CONFLICT (tenant_id, agent_id) DO UPDATE SET
    display_name = excluded.display_name, core = excluded.core, characteristics = excluded.characteristics,
    model = excluded.model, window_tokens = excluded.window_tokens, version = agents.version + 1, updated_at = excluded.updated_at
RETURNING agent_id, display_name, core, characteristics, model, window_tokens, version, created_at, updated_at

-- name: find_agent
-- The definition of one agent.
SELECT agent_id, display_name, core, characteristics, model, window_tokens, version, created_at, updated_at FROM agents
WHERE tenant_id = %(tenant_id)s AND agent_id = %(agent_id)s

-- name: list_agents
-- Agents by id, a page at a time.
SELECT agent_id, display_name, core, characteristics, model, window_tokens, version, created_at, updated_at FROM agents
WHERE tenant_id = %(tenant_id)s AND agent_id > %(after)s ORDER BY agent_id LIMIT %(limit)s

-- name: delete_agent
-- Remove an agent's definition.
DELETE FROM agents WHERE tenant_id = %(tenant_id)s AND agent_id = %(agent_id)s

-- name: insert_key
-- A new API key, by the hash of its secret.
INSERT INTO api_keys (tenant_id, key_id, name, key_hash, role, user_id, users, agent_id, expires_at)
VALUES (%(tenant_id)s, %(key_id)s, %(name)s, %(key_hash)s, %(role)s, %(user_id)s, %(users)s::text[], %(agent_id)s, %(expires_at)s)
RETURNING key_id, name, key_hash, role, user_id, users, agent_id, created_at, expires_at, revoked_at

-- name: find_key
-- One API key of the tenant.
SELECT key_id, name, key_hash, role, user_id, users, agent_id, created_at, expires_at, revoked_at FROM api_keys
WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s

-- name: list_keys
-- Every API key of the tenant, newest first.
SELECT key_id, name, key_hash, role, user_id, users, agent_id, created_at, expires_at, revoked_at FROM api_keys
WHERE tenant_id = %(tenant_id)s ORDER BY key_id DESC

-- name: revoke_key
-- Revoke an API key; it stays listed.
UPDATE api_keys SET revoked_at = COALESCE(revoked_at, (SELECT now())) WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s
RETURNING key_id, name, key_hash, role, user_id, users, agent_id, created_at, expires_at, revoked_at

-- name: insert_sign_in
-- Somebody signed in, or a code that signs in once.
INSERT INTO sign_ins (tenant_id, sign_in_id, secret_hash, is_code, actor, role, user_id, key_id, expires_at)
VALUES (%(tenant_id)s, %(sign_in_id)s, %(secret_hash)s, %(is_code)s, %(actor)s, %(role)s, %(user_id)s, %(key_id)s, %(expires_at)s)

-- name: find_sign_in
-- One sign-in of the tenant.
SELECT sign_in_id, secret_hash, is_code, actor, role, user_id, key_id, expires_at FROM sign_ins
WHERE tenant_id = %(tenant_id)s AND sign_in_id = %(sign_in_id)s

-- name: delete_sign_in
-- End a sign-in, or use up a code.
DELETE FROM sign_ins WHERE tenant_id = %(tenant_id)s AND sign_in_id = %(sign_in_id)s

-- name: delete_old_sign_ins
-- Remove the sign-ins and codes whose time is over.
DELETE FROM sign_ins WHERE tenant_id = %(tenant_id)s AND expires_at <= %(now)s

-- name: find_usage
-- The last known usage of the tenant and its plan; no usage before the first count.
SELECT t.plan, t.settings, u.items, u.bytes, u.writes, u.day
FROM tenants t LEFT JOIN usage u ON u.tenant_id = %(tenant_id)s WHERE t.tenant_id = %(tenant_id)s

-- name: add_usage
-- Add recent writes to the usage.
INSERT INTO usage (tenant_id, items, bytes, writes, day) VALUES (%(tenant_id)s, %(items)s, %(bytes)s, %(writes)s, %(day)s)
ON CONFLICT (tenant_id) DO UPDATE SET items = usage.items + excluded.items, bytes = usage.bytes + excluded.bytes,
    writes = CASE WHEN usage.day = excluded.day THEN usage.writes ELSE 0 END + excluded.writes,
    day = GREATEST(usage.day, excluded.day)

-- name: measure_usage
-- Take the usage from the counts of items; the writes of the day stay as they are.
INSERT INTO usage (tenant_id, items, bytes, writes, day, measured_at)
SELECT %(tenant_id)s, COALESCE(sum(items), 0), COALESCE(sum(bytes), 0)
    + COALESCE((SELECT sum(p.bytes) FROM payloads p WHERE p.tenant_id = %(tenant_id)s), 0), 0, %(day)s, now()
FROM item_counts WHERE tenant_id = %(tenant_id)s AND state <> 'forgotten'
ON CONFLICT (tenant_id) DO UPDATE SET items = excluded.items, bytes = excluded.bytes, measured_at = excluded.measured_at
RETURNING 1

-- name: fold_counts
-- Replace the counts of items that were recorded since a day by their sums.
WITH gone AS (
    DELETE FROM item_counts WHERE tenant_id = %(tenant_id)s AND day >= %(since)s
    RETURNING day, kind, tier, scope, state, items, bytes, pinned)
INSERT INTO item_counts (tenant_id, day, kind, tier, scope, state, items, bytes, pinned)
SELECT %(tenant_id)s, day, kind, tier, scope, state, sum(items), sum(bytes), sum(pinned) FROM gone
GROUP BY day, kind, tier, scope, state HAVING sum(items) <> 0 OR sum(bytes) <> 0 OR sum(pinned) <> 0
RETURNING 1

-- name: recount_items
-- Count every item anew, in one snapshot with the end of the counts before.
WITH gone AS (DELETE FROM item_counts WHERE tenant_id = %(tenant_id)s)
INSERT INTO item_counts (tenant_id, day, kind, tier, scope, state, items, bytes, pinned)
SELECT tenant_id, (created_at AT TIME ZONE 'UTC')::date, kind, tier, scope,
    item_state(anonymized_at, deleted_at, superseded_by, invalid_at, archived_at),
    count(*), sum(octet_length(content)), count(pinned_at)
FROM items WHERE tenant_id = %(tenant_id)s GROUP BY 1, 2, 3, 4, 5, 6
RETURNING 1

-- name: list_tenants
-- Every tenant by name.
SELECT tenant_id, name, language, plan, settings, created_at FROM recordari.tenants ORDER BY name

-- name: protect_source
-- Mark a source as protected.
INSERT INTO protected_sources (tenant_id, source_id) VALUES (%(tenant_id)s, %(source_id)s)
ON CONFLICT (tenant_id, source_id) DO NOTHING

-- name: guard_texts
-- Mark some texts of a source as protected, which are not yet.
INSERT INTO protected_texts (tenant_id, item_id, source_id, content)
SELECT tenant_id, item_id, source_id, content FROM items i
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s AND kind = 'document_chunk' AND live
    AND NOT EXISTS (SELECT 1 FROM protected_texts p WHERE p.tenant_id = %(tenant_id)s AND p.item_id = i.item_id)
LIMIT %(limit)s
ON CONFLICT (tenant_id, item_id) DO NOTHING
RETURNING 1

-- name: unprotect_source
-- End the protection of a source.
DELETE FROM protected_sources WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s

-- name: list_protected
-- The protected sources with the number of their texts.
SELECT s.source_id, s.protected_at, (
    SELECT count(*) FROM protected_texts p WHERE p.tenant_id = %(tenant_id)s AND p.source_id = s.source_id) AS texts
FROM protected_sources s WHERE s.tenant_id = %(tenant_id)s ORDER BY s.protected_at, s.source_id
