-- name: lock_entry
-- One entry by its name, expired or not, locked until the end of the transaction.
SELECT entry_id, scope, owner_id, namespace, key, value, version, item_id, created_at, updated_at, expires_at FROM entries
WHERE tenant_id = %(tenant_id)s AND scope = %(scope)s AND owner_id = %(owner_id)s AND path = %(path)s AND key = %(key)s
FOR UPDATE

-- name: save_entry
-- Create or replace an entry; no row when it is not at the expected version.
INSERT INTO entries (
    tenant_id, entry_id, scope, owner_id, path, namespace, key, value, version, ttl_seconds, created_at, updated_at, expires_at)
VALUES (%(tenant_id)s, %(entry_id)s, %(scope)s, %(owner_id)s, %(path)s, %(namespace)s, %(key)s, %(value)s::jsonb, 1,
    %(ttl_seconds)s, %(now)s, %(now)s, %(expires_at)s)
ON CONFLICT (tenant_id, scope, owner_id, path, key) DO UPDATE SET
    value = excluded.value, version = entries.version + 1, ttl_seconds = excluded.ttl_seconds,
    updated_at = excluded.updated_at, expires_at = excluded.expires_at
WHERE %(if_version)s::bigint IS NULL OR entries.version = %(if_version)s
RETURNING entry_id, scope, owner_id, namespace, key, value, version, item_id, created_at, updated_at, expires_at

-- name: link_item
-- Link an entry to its item.
UPDATE entries SET item_id = %(item_id)s WHERE tenant_id = %(tenant_id)s AND entry_id = %(entry_id)s

-- name: find_entry
-- One entry that has not expired.
SELECT entry_id, scope, owner_id, namespace, key, value, version, item_id, created_at, updated_at, expires_at FROM entries
WHERE tenant_id = %(tenant_id)s AND scope = %(scope)s AND owner_id = %(owner_id)s AND path = %(path)s AND key = %(key)s
    AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: refresh_entries
-- Renew the lifetime of entries that were read.
UPDATE entries SET expires_at = shifted(%(now)s::timestamptz, ttl_seconds)
WHERE tenant_id = %(tenant_id)s AND entry_id = ANY(%(entry_ids)s) AND ttl_seconds IS NOT NULL

-- name: delete_entries
-- Delete entries with their items.
WITH gone AS (
    DELETE FROM entries WHERE tenant_id = %(tenant_id)s AND entry_id = ANY(%(entry_ids)s) RETURNING item_id
)
DELETE FROM items i USING gone g WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id

-- name: delete_item
-- Delete the item of an entry that is no longer indexed.
DELETE FROM items WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND kind = 'entry'

-- name: expired_entries
-- Expired entries, some at a time.
SELECT entry_id FROM entries WHERE tenant_id = %(tenant_id)s AND expires_at <= %(now)s
ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: list_entries
-- Entries in and below a namespace that match the filter, the latest first.
SELECT entry_id, scope, owner_id, namespace, key, value, version, item_id, created_at, updated_at, expires_at,
    NULL::float8 AS score
FROM entries
WHERE tenant_id = %(tenant_id)s AND scope = %(scope)s AND owner_id = %(owner_id)s
    AND path >= %(path)s AND path < %(path_end)s AND (expires_at IS NULL OR expires_at > %(now)s)
    AND jsonb_path_match(value, %(filter)s::jsonpath, %(values)s::jsonb)
ORDER BY updated_at DESC, entry_id DESC OFFSET %(offset)s LIMIT %(limit)s

-- name: search_entries
-- The same, the best answers to a question first: by meaning, and by the share of its words.
SELECT entry_id, scope, owner_id, namespace, key, value, version, item_id, created_at, updated_at, expires_at, score FROM (
    SELECT e.*, CASE
        WHEN f.similarity IS NOT NULL THEN 0.6 * f.similarity + 0.4 * f.share
        WHEN f.share > 0 THEN 0.4 * f.share END AS score
    FROM entries e
    LEFT JOIN LATERAL (
        SELECT -(v.embedding <#> %(vector)s::halfvec) AS similarity, (
            SELECT count(*)::float8 / GREATEST(cardinality(%(queries)s::tsquery[]), 1)
            FROM unnest(%(queries)s::tsquery[]) AS q (query) WHERE i.tsv @@ q.query) AS share
        FROM items i
        LEFT JOIN vectors v ON v.tenant_id = %(tenant_id)s AND v.item_id = i.item_id AND v.model_id = %(model_id)s
        WHERE i.tenant_id = %(tenant_id)s AND i.item_id = e.item_id AND i.live
    ) f ON true
    WHERE e.tenant_id = %(tenant_id)s AND e.scope = %(scope)s AND e.owner_id = %(owner_id)s
        AND e.path >= %(path)s AND e.path < %(path_end)s AND (e.expires_at IS NULL OR e.expires_at > %(now)s)
        AND jsonb_path_match(e.value, %(filter)s::jsonpath, %(values)s::jsonb)
) found
ORDER BY score DESC NULLS LAST, updated_at DESC, entry_id DESC OFFSET %(offset)s LIMIT %(limit)s

-- name: list_namespaces
-- The namespaces of an owner that have entries.
SELECT DISTINCT path, namespace FROM entries
WHERE tenant_id = %(tenant_id)s AND scope = %(scope)s AND owner_id = %(owner_id)s
    AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY path
