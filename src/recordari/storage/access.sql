-- name: add_counts
-- How often items were recalled since the last time, added to what is known.
INSERT INTO access (tenant_id, item_id, times, last_at)
SELECT i.tenant_id, i.item_id, g.times, g.last_at
FROM unnest(%(item_ids)s::uuid[], %(times)s::bigint[], %(last_ats)s::timestamptz[]) AS g (item_id, times, last_at)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
ORDER BY i.item_id
ON CONFLICT (tenant_id, item_id) DO UPDATE SET
    times = access.times + excluded.times, last_at = GREATEST(access.last_at, excluded.last_at)

-- name: list_recent
-- What is known of the use of recent memory, some of it, by id.
SELECT i.item_id, i.kind, i.tier, i.trust, i.created_at, COALESCE(a.times, 0) AS accesses, a.last_at,
    octet_length(i.terms) / 4 AS terms, i.pinned_at IS NOT NULL AS is_pinned,
    (SELECT count(*) FROM mentions m WHERE m.tenant_id = i.tenant_id AND m.item_id = i.item_id) AS names,
    (SELECT count(DISTINCT COALESCE(s.session_id, s.item_id::text)) FROM evidence e
     JOIN items s ON s.tenant_id = e.tenant_id AND s.item_id = e.source_item_id AND s.anonymized_at IS NULL
        AND s.trust IN ('user', 'agent')
     WHERE e.tenant_id = i.tenant_id AND e.item_id = i.item_id) AS sources
FROM items i LEFT JOIN access a ON a.tenant_id = i.tenant_id AND a.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.tier = 'recent' AND i.live AND i.item_id > %(after)s
ORDER BY i.item_id LIMIT %(limit)s

-- name: archive_faded
-- Take faded items out of recall with their vectors, unless somebody promoted or recalled them meanwhile.
WITH archived AS (
    UPDATE items i SET archived_at = %(now)s
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.tier = 'recent' AND i.live
        AND i.pinned_at IS NULL AND NOT EXISTS (
            SELECT FROM access a WHERE a.tenant_id = i.tenant_id AND a.item_id = i.item_id AND a.last_at > %(recalled_since)s)
    RETURNING i.item_id
), hidden AS (
    UPDATE vectors v SET live = false FROM archived a WHERE v.tenant_id = %(tenant_id)s AND v.item_id = a.item_id
)
SELECT item_id FROM archived

-- name: promote_items
-- Let recent items last.
UPDATE items SET tier = 'persistent'
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND tier = 'recent' AND live
RETURNING item_id
