-- name: find_membership
-- The organisation of the tenant, locked until the transaction ends.
SELECT organisation, joined_at FROM memberships WHERE tenant_id = %(tenant_id)s FOR SHARE

-- name: insert_membership
-- Put the tenant into an organisation; nothing when it is in one.
INSERT INTO memberships (tenant_id, organisation, joined_at) VALUES (%(tenant_id)s, %(organisation)s, %(now)s)
ON CONFLICT (tenant_id) DO NOTHING

-- name: delete_membership
-- Take the tenant out of its organisation.
DELETE FROM memberships WHERE tenant_id = %(tenant_id)s

-- name: insert_shares
-- Share items with a tenant; returns those that were not shared with it before.
INSERT INTO shares (tenant_id, item_id, to_tenant_id, to_name, shared_by, shared_at)
SELECT %(tenant_id)s::uuid, item_id, %(to_tenant_id)s, %(to_name)s, %(shared_by)s, %(now)s FROM unnest(%(item_ids)s::uuid[]) AS item_id
ON CONFLICT (tenant_id, item_id, to_tenant_id) DO NOTHING
RETURNING item_id

-- name: list_shares
-- The tenant's shares, newest items first, a page at a time.
SELECT item_id, to_tenant_id, to_name AS tenant, shared_by, shared_at FROM shares
WHERE tenant_id = %(tenant_id)s AND (item_id, to_tenant_id) < (%(before_item)s, %(before_tenant)s)
ORDER BY item_id DESC, to_tenant_id DESC LIMIT %(limit)s

-- name: shares_of
-- The shares of these items.
SELECT item_id, to_tenant_id, to_name AS tenant, shared_by, shared_at FROM shares
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) ORDER BY to_tenant_id, item_id

-- name: shares_with
-- The items that are shared with one tenant.
SELECT item_id FROM shares WHERE tenant_id = %(tenant_id)s AND to_tenant_id = %(to_tenant_id)s ORDER BY item_id

-- name: receivers
-- Every tenant that any item is shared with.
SELECT DISTINCT to_tenant_id FROM shares WHERE tenant_id = %(tenant_id)s ORDER BY to_tenant_id

-- name: delete_shares
-- End the shares of these items, with all tenants or with one.
DELETE FROM shares WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
    AND (%(to_tenant_id)s::uuid IS NULL OR to_tenant_id = %(to_tenant_id)s)
RETURNING item_id, to_tenant_id, to_name AS tenant, shared_by, shared_at

-- name: delete_shares_with
-- End all shares with one tenant.
DELETE FROM shares WHERE tenant_id = %(tenant_id)s AND to_tenant_id = %(to_tenant_id)s

-- name: find_shareable
-- Items as they would be shared.
SELECT {item_columns}, content_hash, live FROM items
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND deleted_at IS NULL AND anonymized_at IS NULL

-- name: lock_given
-- A shared item, locked until the transaction ends.
SELECT {item_columns}, content_hash, live FROM items
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND deleted_at IS NULL AND anonymized_at IS NULL
FOR SHARE

-- name: lock_share
-- Whether an item is shared with a tenant, locked until the transaction ends.
SELECT true FROM shares
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND to_tenant_id = %(to_tenant_id)s
FOR SHARE

-- name: still_shared
-- Which of these items are shared with a tenant and have not ended.
SELECT s.item_id FROM shares s JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = s.item_id AND i.live
WHERE s.tenant_id = %(tenant_id)s AND s.to_tenant_id = %(to_tenant_id)s AND s.item_id = ANY(%(item_ids)s)

-- name: offer_link
-- A tenant that shares with this one for the first time.
INSERT INTO share_links (tenant_id, from_tenant_id, from_name, offered_at)
VALUES (%(tenant_id)s, %(from_tenant_id)s, %(from_name)s, %(now)s)
ON CONFLICT (tenant_id, from_tenant_id) DO NOTHING

-- name: link_status
-- The status of a tenant that shares with this one, locked until the transaction ends.
SELECT status FROM share_links WHERE tenant_id = %(tenant_id)s AND from_tenant_id = %(from_tenant_id)s FOR SHARE

-- name: decide_link
-- Accept or decline a tenant's shares.
UPDATE share_links SET status = %(status)s, decided_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND from_name = %(from_name)s
RETURNING from_tenant_id

-- name: delete_link
-- Delete the link to a tenant.
DELETE FROM share_links WHERE tenant_id = %(tenant_id)s AND from_tenant_id = %(from_tenant_id)s

-- name: list_links
-- The tenants that share with this one, by name.
SELECT l.from_tenant_id, l.from_name AS tenant, l.status, l.offered_at, l.decided_at, (
    SELECT count(*) FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.shared_from = l.from_name) AS items
FROM share_links l WHERE l.tenant_id = %(tenant_id)s ORDER BY l.from_name

-- name: insert_copy
-- The copy of another tenant's item, unless it copies a protected source here. The judge neither checks nor ends it.
INSERT INTO items (tenant_id, {written_columns}, judged_at, pinned_at, shared_from, shared_item_id)
SELECT t.tenant_id, {written_values}, %(now)s::timestamptz, %(now)s::timestamptz, %(shared_from)s::text, %(shared_item_id)s::uuid
FROM tenants t WHERE t.tenant_id = %(tenant_id)s AND (
    %(kind)s::text <> 'fact' OR length(%(content)s::text) < 100 OR NOT copies_protected(t.tenant_id, NULL, %(content)s::text))
ON CONFLICT DO NOTHING
RETURNING 1

-- name: copy_hashes
-- The hash of each copy that came from a tenant.
SELECT shared_item_id, content_hash FROM items
WHERE tenant_id = %(tenant_id)s AND shared_from = %(shared_from)s AND shared_item_id = ANY(%(item_ids)s)

-- name: list_copies
-- The copies that came from a tenant, by what they are copies of.
SELECT shared_item_id FROM items WHERE tenant_id = %(tenant_id)s AND shared_from = %(shared_from)s

-- name: delete_copies
-- Delete copies with everything derived from them; returns the entities that they mentioned.
WITH gone AS MATERIALIZED (
    SELECT item_id FROM items
    WHERE tenant_id = %(tenant_id)s AND shared_from = %(shared_from)s AND shared_item_id = ANY(%(item_ids)s)
), named AS MATERIALIZED (
    SELECT DISTINCT m.entity_id FROM mentions m JOIN gone g ON m.tenant_id = %(tenant_id)s AND m.item_id = g.item_id
), waiting AS (
    DELETE FROM outbox o USING gone g WHERE o.tenant_id = %(tenant_id)s AND o.ref = g.item_id
), deleted AS (
    DELETE FROM items i USING gone g WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id RETURNING i.shared_item_id
)
SELECT ARRAY(SELECT shared_item_id FROM deleted) AS item_ids, ARRAY(SELECT entity_id FROM named) AS entity_ids

-- name: delete_unnamed
-- Delete entities that only the deleted copies mentioned.
DELETE FROM entities e
WHERE e.tenant_id = %(tenant_id)s AND e.entity_id = ANY(%(entity_ids)s) AND NOT EXISTS (
    SELECT 1 FROM mentions m WHERE m.tenant_id = %(tenant_id)s AND m.entity_id = e.entity_id)

-- name: list_to_copy
-- An agent's own persistent facts and procedures, locked until the transaction ends.
SELECT i.item_id, i.kind, i.source_ref FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.scope = 'agent' AND i.agent_id = %(template)s AND i.kind IN ('fact', 'procedure')
    AND i.tier = 'persistent' AND i.live AND i.shared_from IS NULL
ORDER BY i.item_id FOR SHARE

-- name: copy_items
-- Copies of items for another agent; keys that exist are left alone. They are as far judged as what they copy.
INSERT INTO items (tenant_id, judged_at, {written_columns})
SELECT c.tenant_id, c.judged_at, {c.written_columns}
FROM unnest(%(item_ids)s::uuid[], %(copy_ids)s::uuid[], %(source_refs)s::text[]) AS g (item_id, copy_id, source_ref)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.live
CROSS JOIN LATERAL jsonb_populate_record(i, jsonb_build_object(
    'item_id', g.copy_id, 'user_id', NULL, 'agent_id', %(agent_id)s::text, 'session_id', NULL, 'run_id', NULL,
    'source_ref', g.source_ref, 'thread', NULL, 'payload_key', NULL,
    'metadata', i.metadata || jsonb_build_object('template', %(template)s::text, 'copied_from', i.item_id))) c
ORDER BY i.item_id
ON CONFLICT (tenant_id, owned_by, kind, source_ref) DO NOTHING
RETURNING item_id

-- name: copy_vectors
-- The vectors of copies are those of what they copy: the same text means the same.
INSERT INTO vectors (
    tenant_id, item_id, model_id, live, kind, scope, user_id, agent_id, session_id, event_time, embedding, names)
SELECT c.tenant_id, c.item_id, v.model_id, c.live, c.kind, c.scope, c.user_id, c.agent_id, c.session_id, c.event_time, v.embedding,
    v.names
FROM unnest(%(item_ids)s::uuid[], %(copy_ids)s::uuid[]) AS g (item_id, copy_id)
JOIN items c ON c.tenant_id = %(tenant_id)s AND c.item_id = g.copy_id
JOIN vectors v ON v.tenant_id = %(tenant_id)s AND v.item_id = g.item_id
ON CONFLICT (tenant_id, model_id, item_id) DO NOTHING
RETURNING 1

-- name: copy_mentions
-- Copies mention the entities of their originals.
INSERT INTO mentions (tenant_id, entity_id, item_id, user_id)
SELECT m.tenant_id, m.entity_id, g.copy_id, CASE WHEN c.scope IN ('user', 'session') THEN c.user_id END
FROM unnest(%(item_ids)s::uuid[], %(copy_ids)s::uuid[]) AS g (item_id, copy_id)
JOIN items c ON c.tenant_id = %(tenant_id)s AND c.item_id = g.copy_id
JOIN mentions m ON m.tenant_id = %(tenant_id)s AND m.item_id = g.item_id
ON CONFLICT DO NOTHING
RETURNING 1

-- name: link_copies
-- A copy is derived from its original: if that is forgotten, so is the copy.
INSERT INTO evidence (tenant_id, item_id, source_item_id, event_time)
SELECT i.tenant_id, g.copy_id, i.item_id, i.event_time
FROM unnest(%(item_ids)s::uuid[], %(copy_ids)s::uuid[]) AS g (item_id, copy_id)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id
ON CONFLICT DO NOTHING
RETURNING 1

-- name: not_embedded
-- Copies whose original has no vector in the tenant's model yet.
SELECT c.copy_id FROM unnest(%(copy_ids)s::uuid[]) AS c (copy_id)
WHERE NOT EXISTS (
    SELECT 1 FROM vectors v JOIN tenants t ON t.tenant_id = %(tenant_id)s AND t.embedding_model = v.model_id
    WHERE v.tenant_id = %(tenant_id)s AND v.item_id = c.copy_id)

-- name: copy_workflows
-- The active workflows of an agent type for another, with what is believed of their worth; names that exist are left alone.
INSERT INTO workflows (
    tenant_id, workflow_id, agent_type, task_type, name, version, spec, spec_hash, alpha, beta, valid_at)
SELECT p.tenant_id, g.copy_id, %(agent_id)s, p.task_type, p.name, 1, p.spec, p.spec_hash, p.alpha, p.beta, %(now)s
FROM unnest(%(workflow_ids)s::uuid[], %(copy_ids)s::uuid[]) AS g (workflow_id, copy_id)
JOIN workflows p ON p.tenant_id = %(tenant_id)s AND p.workflow_id = g.workflow_id AND p.invalid_at IS NULL
WHERE NOT EXISTS (
    SELECT 1 FROM workflows o WHERE o.tenant_id = %(tenant_id)s AND o.agent_type = %(agent_id)s AND o.task_type = p.task_type
        AND o.name = p.name)
ON CONFLICT DO NOTHING
RETURNING workflow_id

-- name: list_workflows
-- The active workflows of an agent type.
SELECT workflow_id FROM workflows
WHERE tenant_id = %(tenant_id)s AND agent_type = %(template)s AND invalid_at IS NULL ORDER BY workflow_id

-- name: list_members
-- The tenants of every organisation.
SELECT m.organisation, t.name AS tenant, m.joined_at FROM recordari.memberships m
JOIN recordari.tenants t ON t.tenant_id = m.tenant_id ORDER BY m.organisation, t.name
