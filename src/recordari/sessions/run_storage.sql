-- name: insert_run
-- A new run with its first turn and the turn state of its session; nothing when the id is taken.
WITH started AS (
    INSERT INTO runs (
        tenant_id, run_id, owned_by, run_ref, session_id, user_id, agent_id, input, currency, turns, metadata, started_at)
    VALUES (
        %(tenant_id)s, %(run_id)s, %(owned_by)s, %(run_ref)s, %(session_id)s, %(user_id)s, %(agent_id)s, %(input)s,
        %(currency)s, 1, %(metadata)s, %(now)s)
    ON CONFLICT DO NOTHING
    RETURNING run_id, run_ref, session_id, user_id, agent_id, status, input, output, error, tokens_in, tokens_out,
        trim_scale(cost) AS cost, currency, turns, calls, metadata, started_at, ended_at
), logged AS (
    INSERT INTO turns (tenant_id, run_id, owned_by, number, episodes, started_at)
    SELECT %(tenant_id)s::uuid, run_id, %(owned_by)s, 1, %(episodes)s::uuid[], started_at FROM started
    RETURNING 1
), turn_state AS (
    INSERT INTO turn_states (tenant_id, session_id, owned_by, run_id, number, status, created_at, updated_at)
    SELECT %(tenant_id)s::uuid, session_id, %(owned_by)s, run_id, 1, 'running', started_at, started_at FROM started
    ON CONFLICT (tenant_id, session_id, owned_by) DO UPDATE SET
        run_id = excluded.run_id, number = excluded.number, status = excluded.status, updated_at = excluded.updated_at
    RETURNING 1
)
SELECT * FROM started

-- name: find_run
-- One run.
SELECT run_id, run_ref, session_id, user_id, agent_id, status, input, output, error, tokens_in, tokens_out,
    trim_scale(cost) AS cost, currency, turns, calls, metadata, started_at, ended_at
FROM runs WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s

-- name: list_run_owners
-- The owners who have a run with this id: the caller first, and at most two.
SELECT owned_by FROM runs WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s
ORDER BY owned_by <> %(own)s, owned_by LIMIT 2

-- name: lock_run
-- One run, locked.
SELECT run_id, run_ref, session_id, user_id, agent_id, status, input, output, error, tokens_in, tokens_out,
    trim_scale(cost) AS cost, currency, turns, calls, metadata, started_at, ended_at
FROM runs WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s FOR UPDATE

-- name: list_runs
-- Runs, newest first, by agent, session, status and start.
SELECT run_id, run_ref, session_id, user_id, agent_id, status, input, output, error, tokens_in, tokens_out,
    trim_scale(cost) AS cost, currency, turns, calls, metadata, started_at, ended_at
FROM runs
WHERE tenant_id = %(tenant_id)s AND run_ref < %(before)s AND started_at >= %(since)s AND started_at < %(until)s
    AND (%(agent_id)s::text IS NULL OR agent_id = %(agent_id)s)
    AND (%(owned_by)s::text IS NULL OR owned_by = %(owned_by)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
ORDER BY run_ref DESC LIMIT %(limit)s

-- name: start_turn
-- One more turn of a run, its row in the log, and the turn state of the session.
WITH counted AS (
    UPDATE runs SET turns = turns + 1, input = %(input)s
    WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s
    RETURNING run_id, session_id, turns
), turn_state AS (
    INSERT INTO turn_states (tenant_id, session_id, owned_by, run_id, number, status, created_at, updated_at)
    SELECT %(tenant_id)s::uuid, session_id, %(owned_by)s, run_id, turns, 'running', %(now)s::timestamptz, %(now)s::timestamptz
    FROM counted
    ON CONFLICT (tenant_id, session_id, owned_by) DO UPDATE SET
        run_id = excluded.run_id, number = excluded.number, status = excluded.status, updated_at = excluded.updated_at
    RETURNING 1
)
INSERT INTO turns (tenant_id, run_id, owned_by, number, episodes, started_at)
SELECT %(tenant_id)s, run_id, %(owned_by)s, turns, %(episodes)s::uuid[], %(now)s FROM counted
RETURNING number, status, episodes, prompt_tokens, tokens_in, tokens_out,
    trim_scale(cost) AS cost, error, started_at, ended_at

-- name: end_turn
-- The end of a turn with its cost, which is added to the cost of its run.
WITH ended AS (
    UPDATE turns SET
        status = %(status)s, prompt_tokens = %(prompt_tokens)s, tokens_in = %(tokens_in)s, tokens_out = %(tokens_out)s,
        cost = %(cost)s, error = %(error)s, ended_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s AND number = %(number)s
        AND status = 'running'
    RETURNING number, status, episodes, prompt_tokens, tokens_in, tokens_out,
        trim_scale(cost) AS cost, error, started_at, ended_at
), total AS (
    UPDATE runs r SET
        tokens_in = r.tokens_in + e.tokens_in, tokens_out = r.tokens_out + e.tokens_out, cost = r.cost + e.cost
    FROM ended e WHERE r.tenant_id = %(tenant_id)s AND r.run_id = %(run_id)s AND r.owned_by = %(owned_by)s
), turn_state AS (
    UPDATE turn_states t SET
        status = e.status, updated_at = %(now)s, data = COALESCE(%(data)s::jsonb, t.data)
    FROM ended e
    WHERE t.tenant_id = %(tenant_id)s AND t.run_id = %(run_id)s AND t.owned_by = %(owned_by)s AND t.number = e.number
)
SELECT * FROM ended

-- name: end_run
-- End a run that is running.
UPDATE runs SET
    status = %(status)s, output = %(output)s, error = %(error)s, ended_at = %(now)s,
    tokens_in = tokens_in + %(tokens_in)s, tokens_out = tokens_out + %(tokens_out)s, cost = cost + %(cost)s
WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s AND status = 'running'
RETURNING run_id, run_ref, session_id, user_id, agent_id, status, input, output, error, tokens_in, tokens_out,
    trim_scale(cost) AS cost, currency, turns, calls, metadata, started_at, ended_at

-- name: list_turns
-- The log of a run.
SELECT number, status, episodes, prompt_tokens, tokens_in, tokens_out,
    trim_scale(cost) AS cost, error, started_at, ended_at
FROM turns WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s ORDER BY number

-- name: find_turn_state
-- The turn state of a session.
SELECT session_id, run_id, number, status, data, created_at, updated_at
FROM turn_states WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s

-- name: insert_calls
-- Insert tool calls of a run at their numbers; the run counts up to the last of them.
WITH counted AS (
    UPDATE runs SET calls = GREATEST(calls, (SELECT max(n) FROM unnest(%(number)s::integer[]) n))
    WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s
)
INSERT INTO tool_calls (
    tenant_id, run_id, owned_by, number, call_id, turn, name, arguments, result_id, result_blank, result_key, result_bytes,
    result_sha256, result_type, error, latency_ms, started_at)
SELECT %(tenant_id)s, %(run_id)s, %(owned_by)s, number, call_id, %(turn)s, name, arguments, result_id, result_blank,
    result_key, result_bytes, result_sha256, result_type, error, latency_ms, started_at
FROM unnest(
    %(number)s::integer[], %(call_id)s::text[], %(name)s::text[], %(arguments)s::text[], %(result_id)s::uuid[],
    %(result_blank)s::text[], %(result_key)s::text[], %(result_bytes)s::bigint[], %(result_sha256)s::bytea[],
    %(result_type)s::text[], %(error)s::text[], %(latency_ms)s::float8[], %(started_at)s::timestamptz[]
) AS g (
    number, call_id, name, arguments, result_id, result_blank, result_key, result_bytes, result_sha256, result_type,
    error, latency_ms, started_at)
RETURNING 1

-- name: find_calls
-- Tool calls of a run by number, in order.
SELECT number, call_id, turn, name, arguments, result_id, result_key, result_bytes, result_sha256, result_type, error,
    latency_ms, started_at, result_blank AS result
FROM tool_calls
WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s AND number = ANY(%(numbers)s)
ORDER BY number

-- name: list_calls
-- Every tool call of a run, in order.
SELECT number, call_id, turn, name, arguments, result_id, result_key, result_bytes, result_sha256, result_type, error,
    latency_ms, started_at, result_blank AS result
FROM tool_calls WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND owned_by = %(owned_by)s ORDER BY number

-- name: list_results
-- The stored results of a run's tool calls: the item's text, or the whole body behind it.
SELECT c.number, i.content, p.body, p.object_key
FROM tool_calls c
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = c.result_id AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
LEFT JOIN payloads p ON p.tenant_id = %(tenant_id)s AND p.payload_key = c.result_key
WHERE c.tenant_id = %(tenant_id)s AND c.run_id = %(run_id)s AND c.owned_by = %(owned_by)s

-- name: newest_episodes
-- The newest episodes of an agent that its session may see, newest first; archived ones too, since they happened.
SELECT {item_columns} FROM items
WHERE tenant_id = %(tenant_id)s AND kind = 'episode' AND agent_id = %(agent_id)s AND invalid_at IS NULL
    AND deleted_at IS NULL AND anonymized_at IS NULL
    AND (scope = 'agent' OR (scope = 'user' AND user_id = %(user_id)s)
        OR (scope = 'session' AND owned_by = %(owned_by)s AND session_id = %(session_id)s))
ORDER BY item_id DESC LIMIT %(limit)s

-- name: count_episodes
-- How many episodes the tenant has.
SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND kind = 'episode'

-- name: delete_old_episodes
-- Remove some episodes that were written before a given moment; pinned and held ones stay.
DELETE FROM items WHERE tenant_id = %(tenant_id)s AND item_id IN (
    SELECT item_id FROM items
    WHERE tenant_id = %(tenant_id)s AND kind = 'episode' AND created_at < %(before)s AND pinned_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM holds h WHERE h.tenant_id = %(tenant_id)s AND h.item_id = items.item_id)
    LIMIT %(limit)s)

-- name: delete_oldest_episodes
-- Remove the oldest episodes; pinned and held ones stay.
DELETE FROM items WHERE tenant_id = %(tenant_id)s AND item_id IN (
    SELECT item_id FROM items
    WHERE tenant_id = %(tenant_id)s AND kind = 'episode' AND pinned_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM holds h WHERE h.tenant_id = %(tenant_id)s AND h.item_id = items.item_id)
    ORDER BY item_id LIMIT %(limit)s)

-- name: lock_owner
-- The owner's row, locked until the end of the transaction, with its next version; inserted when it is new.
INSERT INTO state_owners (tenant_id, owner_kind, owner_id, owned_by, version, written_at)
VALUES (%(tenant_id)s, %(owner_kind)s, %(owner_id)s, %(owned_by)s, 1, %(now)s)
ON CONFLICT (tenant_id, owner_kind, owner_id, owned_by) DO UPDATE SET
    version = state_owners.version + 1, written_at = excluded.written_at
RETURNING version, closed_at

-- name: list_state_owners
-- The owners who have state of a run or session with this id, or the run or session itself:
-- the caller first, and at most two.
SELECT owned_by FROM (
    SELECT owned_by FROM state_owners
    WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s
    UNION SELECT owned_by FROM sessions
    WHERE tenant_id = %(tenant_id)s AND %(owner_kind)s = 'session' AND session_id = %(owner_id)s
    UNION SELECT owned_by FROM runs
    WHERE tenant_id = %(tenant_id)s AND %(owner_kind)s = 'run' AND run_id = %(owner_id)s) owners
ORDER BY owned_by <> %(own)s, owned_by LIMIT 2

-- name: renew_owner
-- Lock an owner whose keys are about to change, and increase its version.
UPDATE state_owners SET version = version + 1
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND owned_by = %(owned_by)s

-- name: find_owner_version
-- A value that changes with every change of the owner's keys. The counter alone could repeat, in a restored database or in another one
-- that shares the cache; the time of the write and the writing transaction do not repeat with it.
SELECT concat_ws(':', version, xmin, extract(epoch FROM written_at)) FROM state_owners
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND owned_by = %(owned_by)s

-- name: weigh_owner
-- The version of one live key, and the number and size of all other keys; run under the owner's lock.
SELECT COALESCE(max(version) FILTER (WHERE key = %(key)s), 0) AS version,
    count(*) FILTER (WHERE key <> %(key)s) AS other_keys,
    COALESCE(sum(bytes) FILTER (WHERE key <> %(key)s), 0)::bigint AS other_bytes
FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND owned_by = %(owned_by)s
    AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: save_entry
-- Create or replace one key.
INSERT INTO state (tenant_id, owner_kind, owner_id, owned_by, key, value, bytes, version, updated_at, expires_at)
VALUES (%(tenant_id)s, %(owner_kind)s, %(owner_id)s, %(owned_by)s, %(key)s, %(text)s::json, %(bytes)s, %(version)s,
    %(now)s, %(expires_at)s)
ON CONFLICT (tenant_id, owner_kind, owner_id, owned_by, key) DO UPDATE SET
    value = excluded.value, bytes = excluded.bytes, version = excluded.version, updated_at = excluded.updated_at,
    expires_at = excluded.expires_at
RETURNING key, value, version, updated_at, expires_at

-- name: find_entry
-- One live key.
SELECT key, value, version, updated_at, expires_at FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND owned_by = %(owned_by)s
    AND key = %(key)s
    AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: list_entries
-- Every live key of an owner with a prefix.
SELECT key, value, version, updated_at, expires_at FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND owned_by = %(owned_by)s
    AND starts_with(key, %(prefix)s) AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY key

-- name: delete_entry
-- Remove one key, expired or not.
DELETE FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND owned_by = %(owned_by)s
    AND key = %(key)s

-- name: delete_entries
-- Remove every key of an owner.
DELETE FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND owned_by = %(owned_by)s

-- name: close_owner
-- Record that the owner has ended, even if it had no state, so that a late write is refused.
INSERT INTO state_owners (tenant_id, owner_kind, owner_id, owned_by, version, written_at, closed_at)
VALUES (%(tenant_id)s, %(owner_kind)s, %(owner_id)s, %(owned_by)s, 1, %(now)s, %(now)s)
ON CONFLICT (tenant_id, owner_kind, owner_id, owned_by) DO UPDATE SET
    closed_at = COALESCE(state_owners.closed_at, excluded.closed_at)

-- name: delete_expired
-- Remove keys that have expired, some at a time.
DELETE FROM state s USING (
    SELECT owner_kind, owner_id, owned_by, key FROM state
    WHERE tenant_id = %(tenant_id)s AND expires_at <= %(now)s ORDER BY expires_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED) expired
WHERE s.tenant_id = %(tenant_id)s AND s.owner_kind = expired.owner_kind AND s.owner_id = expired.owner_id
    AND s.owned_by = expired.owned_by AND s.key = expired.key

-- name: delete_idle_owners
-- Forget owners that have no keys and were not written to for long, some at a time.
DELETE FROM state_owners d USING (
    SELECT o.owner_kind, o.owner_id, o.owned_by FROM state_owners o
    WHERE o.tenant_id = %(tenant_id)s AND o.written_at < %(before)s AND NOT EXISTS (
        SELECT 1 FROM state s
        WHERE s.tenant_id = %(tenant_id)s AND s.owner_kind = o.owner_kind AND s.owner_id = o.owner_id
            AND s.owned_by = o.owned_by)
    ORDER BY o.written_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED) idle
WHERE d.tenant_id = %(tenant_id)s AND d.owner_kind = idle.owner_kind AND d.owner_id = idle.owner_id
    AND d.owned_by = idle.owned_by
