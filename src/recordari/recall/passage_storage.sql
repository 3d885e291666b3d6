-- name: distances
-- Fragment: how near passages are. OFFSET 0 keeps the planner from any other order.
SELECT i.item_id, i.ordinal, i.embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions}) AS distance
        FROM passages i WHERE i.tenant_id = %(tenant_id)s AND i.model_id = %(model_id)s AND {part} OFFSET 0

-- name: found
-- Passages of long texts that have any of the terms or are nearest in meaning, each with what the ranker needs of it and its item.
WITH worded AS MATERIALIZED (
    SELECT i.item_id, i.ordinal, sum(t.weight * i.rank) AS score
    FROM unnest(%(queries)s::tsquery[], %(weights)s::real[]) AS t (query, weight)
    CROSS JOIN LATERAL (
        SELECT i.item_id, i.ordinal, i.owner, i.kind, i.event_time, ts_rank(i.tsv, t.query, 1) AS rank
        FROM passages i WHERE i.tenant_id = %(tenant_id)s AND i.tsv @@ t.query OFFSET 0) i
    WHERE {visible_passages}
    GROUP BY i.item_id, i.ordinal ORDER BY score DESC, i.item_id, i.ordinal LIMIT %(text_depth)s
), near AS MATERIALIZED (
    SELECT n.item_id, n.ordinal, n.distance FROM ({distances}) n ORDER BY n.distance LIMIT %(vector_depth)s
), found AS (
    SELECT item_id, ordinal, min(text_rank) AS text_rank, min(vector_rank) AS vector_rank FROM (
        SELECT item_id, ordinal, row_number() OVER (ORDER BY score DESC) AS text_rank, NULL::bigint AS vector_rank FROM worded
        UNION ALL SELECT item_id, ordinal, NULL, row_number() OVER (ORDER BY distance) FROM near) a
    GROUP BY item_id, ordinal
)
SELECT f.ordinal, i.item_id, i.scope, i.thread, NULL::integer, i.speaker, i.trust, i.event_time, p.terms, p.tokens, p.traits,
    i.session_id, i.archived_at, p.similarity, false, true, f.text_rank, f.vector_rank, NULL::bigint, NULL::bigint
FROM found f
CROSS JOIN LATERAL (
    SELECT p.terms, p.tokens, p.traits, CASE WHEN p.model_id = %(model_id)s THEN
        -(p.embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions})) END AS similarity
    FROM passages p WHERE p.tenant_id = %(tenant_id)s AND p.item_id = f.item_id AND p.ordinal = f.ordinal OFFSET 0) p
CROSS JOIN LATERAL (
    SELECT i.item_id, i.scope, i.thread, i.speaker, i.trust, i.event_time, i.session_id, i.archived_at FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = f.item_id AND {live} AND {visible} OFFSET 0) i

-- name: texts
-- The texts of these passages.
SELECT p.item_id, p.ordinal, p.start, p.content
FROM unnest(%(item_ids)s::uuid[], %(ordinals)s::integer[]) AS g (item_id, ordinal)
JOIN passages p ON p.tenant_id = %(tenant_id)s AND p.item_id = g.item_id AND p.ordinal = g.ordinal
