-- name: add_counts
-- Adds how often items were recalled since the last flush.
INSERT INTO access (tenant_id, item_id, times, last_at)
SELECT i.tenant_id, i.item_id, g.times, g.last_at
FROM unnest(%(item_ids)s::uuid[], %(times)s::bigint[], %(last_ats)s::timestamptz[]) AS g (item_id, times, last_at)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
ORDER BY i.item_id
ON CONFLICT (tenant_id, item_id) DO UPDATE SET
    times = access.times + excluded.times, last_at = GREATEST(access.last_at, excluded.last_at)

-- name: note_uses
-- Who saw items last, and where; the last one of a slot stays. Nothing is written of a user who was erased meanwhile.
INSERT INTO uses (tenant_id, item_id, slot, owned_by, agent_id, session_id, via, last_at)
SELECT DISTINCT ON (i.item_id, s.slot) i.tenant_id, i.item_id, s.slot, g.owned_by, g.agent_id, g.session_id, g.via, g.last_at
FROM unnest(%(item_ids)s::uuid[], %(owners)s::text[], %(agents)s::text[], %(sessions)s::text[], %(vias)s::text[],
    %(last_ats)s::timestamptz[]) AS g (item_id, owned_by, agent_id, session_id, via, last_at)
CROSS JOIN LATERAL (SELECT hashtext(concat_ws(chr(31), g.owned_by, g.agent_id, g.session_id, g.via)) & 15 AS slot) s
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
WHERE NOT is_erased_owner(g.owned_by, g.last_at)
ORDER BY i.item_id, s.slot, g.last_at DESC
ON CONFLICT (tenant_id, item_id, slot) DO UPDATE SET
    owned_by = excluded.owned_by, agent_id = excluded.agent_id, session_id = excluded.session_id, via = excluded.via,
    last_at = excluded.last_at

-- name: list_uses
-- Who saw an item last, newest first; of one owner, where named.
SELECT CASE WHEN left(owned_by, 5) = 'user:' THEN substr(owned_by, 6) END AS user_id, agent_id, session_id, via, last_at
FROM uses
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND (%(owned_by)s::text IS NULL OR owned_by = %(owned_by)s)
ORDER BY last_at DESC
