-- name: lock_owner
-- The owner's row, locked until the end of the transaction, with its next version; made when it is new.
INSERT INTO state_owners (tenant_id, owner_kind, owner_id, user_id, version, written_at)
VALUES (%(tenant_id)s, %(owner_kind)s, %(owner_id)s, %(user_id)s, 1, %(now)s)
ON CONFLICT (tenant_id, owner_kind, owner_id) DO UPDATE SET
    version = state_owners.version + 1, written_at = excluded.written_at
RETURNING version, user_id, closed_at

-- name: weigh_owner
-- The version of one live key, and how many others there are and what they weigh; asked under the owner's lock.
SELECT COALESCE(max(version) FILTER (WHERE key = %(key)s), 0) AS version,
    count(*) FILTER (WHERE key <> %(key)s) AS other_keys,
    COALESCE(sum(bytes) FILTER (WHERE key <> %(key)s), 0)::bigint AS other_bytes
FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s
    AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: save_entry
-- Create or replace one key.
INSERT INTO state (tenant_id, owner_kind, owner_id, key, user_id, value, bytes, version, updated_at, expires_at)
VALUES (%(tenant_id)s, %(owner_kind)s, %(owner_id)s, %(key)s, %(user_id)s, %(value)s::json, %(bytes)s, %(version)s,
    %(now)s, %(expires_at)s)
ON CONFLICT (tenant_id, owner_kind, owner_id, key) DO UPDATE SET
    value = excluded.value, bytes = excluded.bytes, version = excluded.version, updated_at = excluded.updated_at,
    expires_at = excluded.expires_at
RETURNING key, value, version, updated_at, expires_at

-- name: find_entry
-- One live key.
SELECT key, value, version, updated_at, expires_at FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND key = %(key)s
    AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: list_entries
-- Every live key of an owner that begins so.
SELECT key, value, version, updated_at, expires_at FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s
    AND starts_with(key, %(prefix)s) AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY key

-- name: delete_entry
-- Remove one key, expired or not.
DELETE FROM state
WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s AND key = %(key)s

-- name: delete_entries
-- Remove every key of an owner.
DELETE FROM state WHERE tenant_id = %(tenant_id)s AND owner_kind = %(owner_kind)s AND owner_id = %(owner_id)s

-- name: close_owner
-- Note that the owner has ended, also where it had no state, so that a write which comes late is refused.
INSERT INTO state_owners (tenant_id, owner_kind, owner_id, user_id, version, written_at, closed_at)
VALUES (%(tenant_id)s, %(owner_kind)s, %(owner_id)s, %(user_id)s, 1, %(now)s, %(now)s)
ON CONFLICT (tenant_id, owner_kind, owner_id) DO UPDATE SET
    closed_at = COALESCE(state_owners.closed_at, excluded.closed_at)

-- name: delete_expired
-- Remove keys that have expired, some at a time.
DELETE FROM state WHERE tenant_id = %(tenant_id)s AND (owner_kind, owner_id, key) IN (
    SELECT owner_kind, owner_id, key FROM state
    WHERE tenant_id = %(tenant_id)s AND expires_at <= %(now)s ORDER BY expires_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED)

-- name: delete_idle_owners
-- Forget owners that have no keys and were not written to for long, some at a time.
DELETE FROM state_owners WHERE tenant_id = %(tenant_id)s AND (owner_kind, owner_id) IN (
    SELECT o.owner_kind, o.owner_id FROM state_owners o
    WHERE o.tenant_id = %(tenant_id)s AND o.written_at < %(before)s AND NOT EXISTS (
        SELECT FROM state s
        WHERE s.tenant_id = o.tenant_id AND s.owner_kind = o.owner_kind AND s.owner_id = o.owner_id)
    ORDER BY o.written_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
