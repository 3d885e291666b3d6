-- name: insert_source
-- Register a source unless its name is taken.
INSERT INTO sources (tenant_id, source_id, name, kind, description, tool, folder)
VALUES (%(tenant_id)s, %(source_id)s, %(name)s, %(kind)s, %(description)s, %(tool)s, %(folder)s)
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING source_id, name, kind, description, tool, folder, documents, chunks, sync, created_at, updated_at

-- name: update_source
-- Say something else of a source; what is null stays.
UPDATE sources SET name = COALESCE(%(name)s, name), description = COALESCE(%(description)s, description),
    tool = COALESCE(%(tool)s, tool), updated_at = now()
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s
RETURNING source_id, name, kind, description, tool, folder, documents, chunks, sync, created_at, updated_at

-- name: find_source
-- One source.
SELECT source_id, name, kind, description, tool, folder, documents, chunks, sync, created_at, updated_at FROM sources
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s

-- name: find_source_by_name
-- The source of that name.
SELECT source_id, name, kind, description, tool, folder, documents, chunks, sync, created_at, updated_at FROM sources
WHERE tenant_id = %(tenant_id)s AND name = %(name)s

-- name: list_sources
-- Sources by name, after the one given.
SELECT source_id, name, kind, description, tool, folder, documents, chunks, sync, created_at, updated_at FROM sources
WHERE tenant_id = %(tenant_id)s AND name > %(after)s ORDER BY name LIMIT %(limit)s

-- name: list_entries
-- What the knowledge map says of every source, connected databases included.
SELECT name, kind, description, tool, documents FROM sources WHERE tenant_id = %(tenant_id)s
UNION ALL
SELECT d.name, 'database', d.description, NULL, 0 FROM databases d
WHERE d.tenant_id = %(tenant_id)s AND NOT EXISTS (
    SELECT FROM sources s WHERE s.tenant_id = d.tenant_id AND s.name = d.name)
ORDER BY name LIMIT 1000

-- name: count_change
-- How many documents and chunks a source has more.
UPDATE sources SET documents = documents + %(documents)s, chunks = chunks + %(chunks)s, updated_at = now()
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s

-- name: save_sync
-- How far a synchronisation has come.
UPDATE sources SET sync = %(sync)s WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s

-- name: delete_source
-- Remove a source; its documents must be gone before.
DELETE FROM sources WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s
