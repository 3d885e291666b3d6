-- name: protect_source
-- Protect a source, and take its texts under guard.
INSERT INTO protected_sources (tenant_id, source_id) VALUES (%(tenant_id)s, %(source_id)s)
ON CONFLICT (tenant_id, source_id) DO NOTHING

-- name: guard_texts
-- The texts of a source that memory must not copy.
INSERT INTO protected_texts (tenant_id, item_id, source_id, content)
SELECT tenant_id, item_id, source_id, content FROM items
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s AND kind = 'document_chunk' AND live
ON CONFLICT (tenant_id, item_id) DO NOTHING

-- name: unprotect_source
-- Protect a source no longer.
DELETE FROM protected_sources WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s

-- name: list_protected
-- The protected sources, and how many texts each has.
SELECT s.source_id, s.protected_at, (
    SELECT count(*) FROM protected_texts p WHERE p.tenant_id = s.tenant_id AND p.source_id = s.source_id) AS texts
FROM protected_sources s WHERE s.tenant_id = %(tenant_id)s ORDER BY s.protected_at, s.source_id
