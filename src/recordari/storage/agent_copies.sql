-- name: list_to_copy
-- What an agent knows and how it does things, as far as another agent has no copy of it.
SELECT i.item_id, i.kind, i.source_ref FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.scope = 'agent' AND i.agent_id = %(template)s AND i.kind IN ('fact', 'procedure')
    AND i.tier = 'persistent' AND i.live AND i.shared_from IS NULL
ORDER BY i.item_id FOR SHARE

-- name: copy_items
-- Copies of items for another agent; keys that exist are left alone. They are as far judged as what they copy.
INSERT INTO items (
    tenant_id, item_id, kind, scope, tier, agent_id, source_ref, source_id, content, content_hash, speaker, trust, event_time,
    valid_at, subject, predicate, object, confidence, category, metadata, judged_at, masked, tsv, terms, tokens, traits)
SELECT i.tenant_id, g.copy_id, i.kind, i.scope, i.tier, %(agent_id)s, g.source_ref, i.source_id, i.content, i.content_hash,
    i.speaker, i.trust, i.event_time, i.valid_at, i.subject, i.predicate, i.object, i.confidence, i.category,
    i.metadata || jsonb_build_object('template', %(template)s::text, 'copied_from', i.item_id), i.judged_at, i.masked, i.tsv,
    i.terms, i.tokens, i.traits
FROM unnest(%(item_ids)s::uuid[], %(copy_ids)s::uuid[], %(source_refs)s::text[]) AS g (item_id, copy_id, source_ref)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.live
ORDER BY i.item_id
ON CONFLICT (tenant_id, kind, source_ref) DO NOTHING
RETURNING item_id

-- name: copy_vectors
-- The vectors of copies are those of what they copy: the same text means the same.
INSERT INTO vectors (tenant_id, item_id, model_id, live, kind, scope, user_id, agent_id, session_id, event_time, embedding)
SELECT c.tenant_id, c.item_id, v.model_id, c.live, c.kind, c.scope, c.user_id, c.agent_id, c.session_id, c.event_time, v.embedding
FROM unnest(%(item_ids)s::uuid[], %(copy_ids)s::uuid[]) AS g (item_id, copy_id)
JOIN items c ON c.tenant_id = %(tenant_id)s AND c.item_id = g.copy_id
JOIN vectors v ON v.tenant_id = %(tenant_id)s AND v.item_id = g.item_id
ON CONFLICT (tenant_id, model_id, item_id) DO NOTHING

-- name: copy_mentions
-- Copies mention whom their originals mention.
INSERT INTO mentions (tenant_id, entity_id, item_id)
SELECT m.tenant_id, m.entity_id, g.copy_id FROM unnest(%(item_ids)s::uuid[], %(copy_ids)s::uuid[]) AS g (item_id, copy_id)
JOIN mentions m ON m.tenant_id = %(tenant_id)s AND m.item_id = g.item_id
ON CONFLICT DO NOTHING

-- name: link_copies
-- A copy rests on its original: where that is forgotten, so is the copy.
INSERT INTO evidence (tenant_id, item_id, source_item_id, event_time)
SELECT i.tenant_id, g.copy_id, i.item_id, i.event_time
FROM unnest(%(item_ids)s::uuid[], %(copy_ids)s::uuid[]) AS g (item_id, copy_id)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id
ON CONFLICT DO NOTHING

-- name: not_embedded
-- Copies whose original has no vector in the tenant's model yet.
SELECT c.copy_id FROM unnest(%(copy_ids)s::uuid[]) AS c (copy_id)
WHERE NOT EXISTS (
    SELECT FROM vectors v JOIN tenants t ON t.tenant_id = v.tenant_id AND t.embedding_model = v.model_id
    WHERE v.tenant_id = %(tenant_id)s AND v.item_id = c.copy_id)

-- name: copy_procedures
-- The active procedures of an agent type for another, with what is believed of their worth; names that exist are left alone.
INSERT INTO procedures (
    tenant_id, procedure_id, agent_type, task_type, name, version, spec, spec_hash, alpha, beta, valid_at)
SELECT p.tenant_id, g.copy_id, %(agent_id)s, p.task_type, p.name, 1, p.spec, p.spec_hash, p.alpha, p.beta, %(now)s
FROM unnest(%(procedure_ids)s::uuid[], %(copy_ids)s::uuid[]) AS g (procedure_id, copy_id)
JOIN procedures p ON p.tenant_id = %(tenant_id)s AND p.procedure_id = g.procedure_id AND p.invalid_at IS NULL
WHERE NOT EXISTS (
    SELECT FROM procedures o WHERE o.tenant_id = p.tenant_id AND o.agent_type = %(agent_id)s AND o.task_type = p.task_type
        AND o.name = p.name)
ON CONFLICT DO NOTHING
RETURNING procedure_id

-- name: list_procedures
-- The active procedures of an agent type.
SELECT procedure_id FROM procedures
WHERE tenant_id = %(tenant_id)s AND agent_type = %(template)s AND invalid_at IS NULL ORDER BY procedure_id
