-- name: insert_hold
-- An action rests on an item that still says something.
INSERT INTO holds (tenant_id, item_id, action_id)
SELECT i.tenant_id, i.item_id, %(action_id)s FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = %(item_id)s AND i.anonymized_at IS NULL FOR SHARE OF i
ON CONFLICT (tenant_id, item_id, action_id) DO NOTHING

-- name: delete_hold
-- An action rests on an item no longer.
DELETE FROM holds WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND action_id = %(action_id)s

-- name: list_holds
-- The actions that rest on an item.
SELECT item_id, action_id, created_at FROM holds
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s ORDER BY created_at, action_id
