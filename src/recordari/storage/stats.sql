-- name: count_items
-- The tenant's items by kind, tier and scope, and by what became of them, in one pass.
SELECT kind, tier, scope,
    CASE WHEN anonymized_at IS NOT NULL OR deleted_at IS NOT NULL THEN 'forgotten' WHEN superseded_by IS NOT NULL THEN 'superseded'
        WHEN invalid_at IS NOT NULL THEN 'invalid' WHEN archived_at IS NOT NULL THEN 'archived' ELSE 'live' END AS state,
    count(*) AS number, sum(octet_length(content)) AS bytes, count(pinned_at) AS pinned
FROM items WHERE tenant_id = %(tenant_id)s GROUP BY 1, 2, 3, 4

-- name: count_others
-- How many vectors, bodies, sessions, runs and holds the tenant has, and how large its bodies are.
SELECT
    (SELECT count(*) FROM vectors WHERE tenant_id = %(tenant_id)s) AS vectors,
    (SELECT count(*) FROM payloads WHERE tenant_id = %(tenant_id)s) AS payloads,
    (SELECT COALESCE(sum(bytes), 0)::bigint FROM payloads WHERE tenant_id = %(tenant_id)s) AS payload_bytes,
    (SELECT count(*) FROM sessions WHERE tenant_id = %(tenant_id)s AND status = 'open') AS open_sessions,
    (SELECT count(*) FROM sessions WHERE tenant_id = %(tenant_id)s AND status <> 'open') AS closed_sessions,
    (SELECT count(*) FROM runs WHERE tenant_id = %(tenant_id)s) AS runs,
    (SELECT count(*) FROM holds WHERE tenant_id = %(tenant_id)s) AS holds
