-- name: backdate_items
-- Let the invented past have been recorded when it happened; what was superseded, when its successor was.
UPDATE items i SET created_at = LEAST(i.created_at, i.event_time),
    retired_at = COALESCE((SELECT s.event_time FROM items s
        WHERE s.tenant_id = %(tenant_id)s AND s.item_id = i.superseded_by), i.retired_at)
WHERE i.tenant_id = %(tenant_id)s AND i.event_time < i.created_at

-- name: backdate_users
-- The shop has had its customers for some time.
UPDATE users SET created_at = %(since)s WHERE tenant_id = %(tenant_id)s

-- name: backdate_agents
-- And its agent.
UPDATE agents SET created_at = %(since)s, updated_at = %(since)s WHERE tenant_id = %(tenant_id)s

-- name: backdate_sources
-- And the source of its documents.
UPDATE sources SET created_at = %(since)s, updated_at = %(since)s WHERE tenant_id = %(tenant_id)s
