-- name: insert_links
-- Which items were taken from which; a link that exists stays.
INSERT INTO evidence (tenant_id, item_id, source_item_id, event_time)
SELECT DISTINCT %(tenant_id)s::uuid, g.item_id, g.source_item_id, g.event_time
FROM unnest(%(item_ids)s::uuid[], %(source_ids)s::uuid[], %(event_times)s::timestamptz[])
    AS g (item_id, source_item_id, event_time)
WHERE g.item_id <> g.source_item_id
ON CONFLICT (tenant_id, item_id, source_item_id) DO NOTHING

-- name: copy_links
-- A new version rests on what the old one rested on.
INSERT INTO evidence (tenant_id, item_id, source_item_id, event_time)
SELECT tenant_id, %(item_id)s, source_item_id, event_time FROM evidence
WHERE tenant_id = %(tenant_id)s AND item_id = %(from_id)s AND source_item_id <> %(item_id)s
ON CONFLICT (tenant_id, item_id, source_item_id) DO NOTHING

-- name: sources_of
-- What an item rests on, oldest first.
SELECT e.source_item_id AS item_id, e.event_time, i.session_id
FROM evidence e JOIN items i ON i.tenant_id = e.tenant_id AND i.item_id = e.source_item_id
WHERE e.tenant_id = %(tenant_id)s AND e.item_id = %(item_id)s
ORDER BY e.event_time, e.source_item_id LIMIT %(limit)s

-- name: links_among
-- Which of these items were taken from which others of them.
SELECT item_id, source_item_id FROM evidence
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND source_item_id = ANY(%(item_ids)s)

-- name: derived_from
-- Everything that rests on these items, directly or by others in between, and whether on them alone.
WITH RECURSIVE derived AS (
    SELECT item_id FROM evidence WHERE tenant_id = %(tenant_id)s AND source_item_id = ANY(%(item_ids)s)
    UNION
    SELECT e.item_id FROM derived d JOIN evidence e ON e.tenant_id = %(tenant_id)s AND e.source_item_id = d.item_id
)
SELECT d.item_id, NOT EXISTS (
    SELECT FROM evidence e WHERE e.tenant_id = %(tenant_id)s AND e.item_id = d.item_id
        AND e.source_item_id <> ALL(%(item_ids)s) AND e.source_item_id NOT IN (SELECT item_id FROM derived)) AS is_orphan
FROM derived d ORDER BY d.item_id

-- name: promote_corroborated
-- What a person said in more than one session lasts; nothing from other carriers does without review.
UPDATE items i SET tier = 'persistent'
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.kind = 'fact' AND i.tier <> 'persistent'
    AND i.trust = 'user' AND (
        SELECT count(DISTINCT s.session_id) FROM evidence e
        JOIN items s ON s.tenant_id = e.tenant_id AND s.item_id = e.source_item_id
        WHERE e.tenant_id = i.tenant_id AND e.item_id = i.item_id AND s.trust = 'user') >= %(sessions)s
RETURNING i.item_id

-- name: save_feedback
-- What somebody thinks of an item, and what they thought before.
WITH before AS (
    SELECT opinion FROM feedback
    WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND given_by = %(given_by)s
), saved AS (
    INSERT INTO feedback (tenant_id, item_id, given_by, opinion, given_at)
    VALUES (%(tenant_id)s, %(item_id)s, %(given_by)s, %(opinion)s, %(now)s)
    ON CONFLICT (tenant_id, item_id, given_by) DO UPDATE SET opinion = excluded.opinion, given_at = excluded.given_at
)
SELECT opinion FROM before

-- name: count_feedback
-- How many people found an item useful, and how many wrong.
SELECT count(*) FILTER (WHERE opinion = 'useful') AS useful, count(*) FILTER (WHERE opinion = 'wrong') AS wrong
FROM feedback WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
