-- name: standing_of_refs
-- How the facts behind these references stand.
SELECT source_ref, item_id, live, invalid_at, superseded_by, archived_at IS NOT NULL AS is_archived,
    deleted_at IS NOT NULL OR anonymized_at IS NOT NULL AS is_forgotten
FROM items WHERE tenant_id = %(tenant_id)s AND kind = %(kind)s AND source_ref = ANY(%(source_refs)s)

-- name: set_aside
-- Ended rows give their reference up, for the row that says the same again; each gets one of its own.
UPDATE items SET source_ref = source_ref || '@' || item_id
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND source_ref = ANY(%(source_refs)s) AND NOT live

-- name: set_ref
-- The reference under which a row is found when its words are stated again.
UPDATE items SET source_ref = %(source_ref)s WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s

-- name: lock_items
-- Rows to change together, locked in the order of their ids so that no two writers wait for each other.
SELECT item_id, live, valid_at, invalid_at, superseded_by, pinned_at IS NOT NULL AS is_pinned,
    deleted_at IS NOT NULL OR anonymized_at IS NOT NULL AS is_forgotten
FROM items WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) ORDER BY item_id FOR UPDATE

-- name: end_items
-- Rows that stop being true, each at its moment and by its successor, with their vectors.
WITH given AS (
    SELECT * FROM unnest(%(item_ids)s::uuid[], %(successors)s::uuid[], %(moments)s::timestamptz[])
        AS g (item_id, superseded_by, invalid_at)
), hidden AS (
    UPDATE vectors v SET live = false FROM given g WHERE v.tenant_id = %(tenant_id)s AND v.item_id = g.item_id AND v.live
)
UPDATE items i SET invalid_at = g.invalid_at, superseded_by = g.superseded_by
FROM given g WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id

-- name: revive_item
-- A row that is true again, with its vectors, as far as nothing else ended it.
WITH shown AS (
    UPDATE vectors v SET live = i.archived_at IS NULL FROM items i
    WHERE v.tenant_id = %(tenant_id)s AND v.item_id = %(item_id)s AND i.tenant_id = v.tenant_id AND i.item_id = v.item_id
)
UPDATE items SET invalid_at = NULL, superseded_by = NULL WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s

-- name: unarchive_items
-- Rows that had only faded are in recall again, with their vectors.
WITH shown AS (
    UPDATE items SET archived_at = NULL
    WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND archived_at IS NOT NULL AND invalid_at IS NULL
        AND deleted_at IS NULL AND anonymized_at IS NULL
    RETURNING item_id
)
UPDATE vectors v SET live = true FROM shown s WHERE v.tenant_id = %(tenant_id)s AND v.item_id = s.item_id

-- name: history
-- Every version that one item stands in line with, oldest first.
WITH RECURSIVE later AS (
    SELECT item_id, superseded_by FROM items WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
    UNION
    SELECT i.item_id, i.superseded_by FROM later l
    JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = l.superseded_by
), line AS (
    SELECT item_id FROM later
    UNION
    SELECT i.item_id FROM line l JOIN items i ON i.tenant_id = %(tenant_id)s AND i.superseded_by = l.item_id
)
SELECT {i.item_columns}
FROM items i JOIN line ON line.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s
ORDER BY i.valid_at, i.item_id LIMIT %(limit)s
