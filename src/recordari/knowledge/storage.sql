-- name: find_document
-- One document with the name of its source.
SELECT d.document_id, d.source_id, s.name AS source, d.name, d.title, d.media_type, d.revision, d.bytes, d.characters,
    d.chunks, d.pages, d.metadata, d.created_at, d.updated_at, EXISTS (
        SELECT 1 FROM payloads p WHERE p.tenant_id = %(tenant_id)s AND p.document_id = d.document_id) AS has_original
FROM documents d JOIN sources s ON s.tenant_id = %(tenant_id)s AND s.source_id = d.source_id
WHERE d.tenant_id = %(tenant_id)s AND d.document_id = %(document_id)s

-- name: list_documents
-- Documents of a source or of all, by id, after the one given.
SELECT d.document_id, d.source_id, s.name AS source, d.name, d.title, d.media_type, d.revision, d.bytes, d.characters,
    d.chunks, d.pages, d.metadata, d.created_at, d.updated_at, EXISTS (
        SELECT 1 FROM payloads p WHERE p.tenant_id = %(tenant_id)s AND p.document_id = d.document_id) AS has_original
FROM documents d JOIN sources s ON s.tenant_id = %(tenant_id)s AND s.source_id = d.source_id
WHERE d.tenant_id = %(tenant_id)s AND d.document_id > %(after)s
    AND (%(source_id)s::uuid IS NULL OR d.source_id = %(source_id)s)
ORDER BY d.document_id LIMIT %(limit)s

-- name: find_current
-- The current revision of the document of that name, and the hash of its file.
SELECT document_id, revision, sha256, chunks FROM documents
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s AND name = %(name)s

-- name: lock_current
-- The same, locked until the end of the transaction.
SELECT document_id, revision, sha256, chunks FROM documents
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s AND name = %(name)s FOR UPDATE

-- name: list_names
-- Every document of a source, by name.
SELECT name, document_id FROM documents WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s

-- name: save_document
-- A document at its first or its next revision.
INSERT INTO documents (tenant_id, document_id, source_id, name, title, media_type, revision, sha256, bytes, characters,
    chunks, pages, metadata, created_at, updated_at)
VALUES (%(tenant_id)s, %(document_id)s, %(source_id)s, %(name)s, %(title)s, %(media_type)s, %(revision)s, %(sha256)s,
    %(bytes)s, %(characters)s, %(chunks)s, %(pages)s, %(metadata)s, %(now)s, %(now)s)
ON CONFLICT (tenant_id, document_id) DO UPDATE SET title = excluded.title, media_type = excluded.media_type,
    revision = excluded.revision, sha256 = excluded.sha256, bytes = excluded.bytes, characters = excluded.characters,
    chunks = excluded.chunks, pages = excluded.pages, metadata = excluded.metadata, updated_at = excluded.updated_at

-- name: list_kept
-- The chunks of the current revision: what tells whether a text is stored already.
SELECT i.item_id, i.content_hash, i.metadata ->> 'title' AS title FROM document_chunks c
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = c.item_id
WHERE c.tenant_id = %(tenant_id)s AND c.document_id = %(document_id)s AND i.live ORDER BY c.ordinal

-- name: end_chunks
-- End chunks that the next revision does not contain. They leave recall, and questions about the past still find them.
WITH hidden AS (
    UPDATE vectors SET live = false WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
)
UPDATE items SET invalid_at = %(now)s, thread = NULL, position = NULL
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND invalid_at IS NULL

-- name: clear_chunks
-- Delete the positions of the last revision's chunks.
DELETE FROM document_chunks WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s

-- name: insert_chunks
-- The positions of a revision's chunks. A forgotten chunk has no item and no position.
WITH given AS (
    SELECT * FROM unnest(
        %(ordinals)s::integer[], %(item_ids)s::uuid[], %(headings)s::jsonb[], %(pages)s::integer[], %(firsts)s::integer[],
        %(pasts)s::integer[]) AS g (ordinal, item_id, heading, page, first, past)
), placed AS (
    UPDATE items i SET thread = %(thread)s, position = g.ordinal + 1 FROM given g
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id
        AND (i.thread IS DISTINCT FROM %(thread)s OR i.position IS DISTINCT FROM g.ordinal + 1)
)
INSERT INTO document_chunks (tenant_id, document_id, ordinal, item_id, heading, page, first, past)
SELECT %(tenant_id)s, %(document_id)s, ordinal, item_id, ARRAY(SELECT jsonb_array_elements_text(heading)), page, first, past
FROM given
RETURNING 1

-- name: save_original
-- The file itself, in the row or in the object store; it replaces the one before.
INSERT INTO payloads (tenant_id, payload_key, document_id, owned_by, media_type, bytes, sha256, body, object_key)
VALUES (%(tenant_id)s, %(payload_key)s, %(document_id)s, 'tenant', %(media_type)s, %(bytes)s, %(sha256)s, %(body)s, %(object_key)s)
ON CONFLICT (tenant_id, payload_key) DO UPDATE SET media_type = excluded.media_type, bytes = excluded.bytes,
    sha256 = excluded.sha256, body = excluded.body, object_key = excluded.object_key

-- name: delete_original
-- Delete the file of a document.
DELETE FROM payloads WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s

-- name: find_original
-- The file of a document.
SELECT media_type, body, object_key FROM payloads WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s

-- name: read_chunks
-- Chunks of a document in order, from one on.
SELECT c.ordinal, c.item_id, c.heading, c.page, c.first, c.past, i.content FROM document_chunks c
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = c.item_id AND i.live
WHERE c.tenant_id = %(tenant_id)s AND c.document_id = %(document_id)s AND c.ordinal >= %(first)s
ORDER BY c.ordinal LIMIT %(limit)s

-- name: citations
-- The positions of chunks by item.
SELECT c.item_id, c.document_id, d.name AS document, d.title, d.source_id, s.name AS source, d.revision, c.ordinal,
    c.heading, c.page, c.first, c.past
FROM document_chunks c
JOIN documents d ON d.tenant_id = %(tenant_id)s AND d.document_id = c.document_id
JOIN sources s ON s.tenant_id = %(tenant_id)s AND s.source_id = d.source_id
WHERE c.tenant_id = %(tenant_id)s AND c.item_id = ANY(%(item_ids)s)

-- name: delete_document
-- Remove a document with its file. Its chunks leave recall, and the counts of its source go down.
WITH gone AS (
    SELECT item_id FROM document_chunks WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s
), hidden AS (
    UPDATE vectors v SET live = false FROM gone g WHERE v.tenant_id = %(tenant_id)s AND v.item_id = g.item_id
), ended AS (
    UPDATE items i SET deleted_at = %(now)s, thread = NULL, position = NULL FROM gone g
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.deleted_at IS NULL
), removed AS (
    DELETE FROM documents WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s RETURNING source_id, chunks
), counted AS (
    UPDATE sources s SET documents = s.documents - 1, chunks = s.chunks - r.chunks, updated_at = %(now)s FROM removed r
    WHERE s.tenant_id = %(tenant_id)s AND s.source_id = r.source_id
)
SELECT chunks FROM removed

-- name: insert_source
-- Register a source unless its name is taken.
INSERT INTO sources (tenant_id, source_id, name, kind, description, tool, folder)
VALUES (%(tenant_id)s, %(source_id)s, %(name)s, %(kind)s, %(description)s, %(tool)s, %(folder)s)
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING source_id, name, kind, description, tool, folder, documents, chunks, sync, created_at, updated_at

-- name: update_source
-- Change a source; null leaves a column as it is.
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
-- The knowledge map's columns of every source and connected database.
SELECT name, kind, description, tool, documents, '{}'::text[] AS tables FROM sources WHERE tenant_id = %(tenant_id)s
UNION ALL
SELECT d.name, 'database', d.description, NULL, 0, ARRAY(
    SELECT format('%%s(%%s)', t ->> 'name', (
        SELECT string_agg(c ->> 'name', ', ' ORDER BY place) FROM jsonb_array_elements(t -> 'columns') WITH ORDINALITY u (c, place)))
    FROM jsonb_array_elements(d.schema) t LIMIT 50)
FROM databases d
WHERE d.tenant_id = %(tenant_id)s AND NOT EXISTS (
    SELECT 1 FROM sources s WHERE s.tenant_id = d.tenant_id AND s.name = d.name)
ORDER BY name LIMIT 1000

-- name: count_change
-- Add to the counts of a source.
UPDATE sources SET documents = documents + %(documents)s, chunks = chunks + %(chunks)s, updated_at = now()
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s

-- name: save_sync
-- Save the progress of a synchronisation.
UPDATE sources SET sync = %(sync)s WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s

-- name: delete_source
-- Remove a source that has no documents.
DELETE FROM sources WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s
