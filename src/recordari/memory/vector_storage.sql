-- name: texts_to_embed
-- The items of these ids that can still be embedded, each with the head of the one before it in its thread.
SELECT i.item_id, i.kind, i.content, i.content_hash, i.payload_key, i.speaker, i.event_time, i.metadata,
    p.speaker AS previous_speaker, left(p.content, %(head)s) AS previous_head
FROM items i
LEFT JOIN LATERAL (
    -- The last of them: messages of the same moment may have the same position.
    SELECT p.speaker, p.content FROM items p
    WHERE p.tenant_id = %(tenant_id)s AND p.thread = i.thread AND p.position = i.position - 1
        AND i.kind = 'chat_message' AND p.kind = 'chat_message'
        AND p.scope = i.scope AND p.anonymized_at IS NULL AND p.deleted_at IS NULL
    ORDER BY p.item_id DESC LIMIT 1) p ON true
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.anonymized_at IS NULL AND i.deleted_at IS NULL

-- name: save_vectors
-- Vectors of items whose text is still the one that was embedded, with the names that they mention.
INSERT INTO vectors (
    tenant_id, item_id, model_id, live, archived, kind, scope, user_id, agent_id, session_id, event_time, embedding, names)
SELECT i.tenant_id, i.item_id, %(model_id)s, i.invalid_at IS NULL AND i.superseded_by IS NULL, i.archived_at IS NOT NULL, i.kind,
    i.scope, i.user_id, i.agent_id, i.session_id, i.event_time, g.embedding, ARRAY(
        SELECT e.key FROM mentions m CROSS JOIN LATERAL (
            SELECT e.key FROM entities e WHERE e.tenant_id = %(tenant_id)s AND e.entity_id = m.entity_id OFFSET 0) e
        WHERE m.tenant_id = %(tenant_id)s AND m.item_id = i.item_id)
FROM unnest(%(item_ids)s::uuid[], %(content_hashes)b::bytea[], %(embeddings)b::halfvec[])
    AS g (item_id, content_hash, embedding)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.content_hash = g.content_hash
    AND i.anonymized_at IS NULL AND i.deleted_at IS NULL
FOR SHARE OF i  -- an item that is being forgotten is waited for, and then gets no vector
ON CONFLICT (tenant_id, model_id, item_id) DO UPDATE SET
    embedding = excluded.embedding, names = excluded.names, live = excluded.live, archived = excluded.archived
RETURNING 1

-- name: long_texts
-- The items of these ids with their whole bodies, where they have one.
SELECT i.item_id, i.kind, i.content, i.content_hash, i.payload_key, i.speaker, i.event_time, p.media_type, p.body, p.object_key
FROM items i LEFT JOIN payloads p ON p.tenant_id = %(tenant_id)s AND p.payload_key = i.payload_key AND p.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.anonymized_at IS NULL AND i.deleted_at IS NULL

-- name: delete_passages
-- Delete the passages of an item.
DELETE FROM passages WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s

-- name: save_passages
-- The passages of an item whose text is still the one that was cut.
INSERT INTO passages (
    tenant_id, item_id, ordinal, start, kind, event_time, owner, content, tsv, terms, tokens, traits, model_id, embedding)
SELECT i.tenant_id, i.item_id, g.ordinal, g.start, i.kind, i.event_time, i.owner, g.content, g.tsv::tsvector, g.terms, g.tokens,
    g.traits, %(model_id)s::text, g.embedding
FROM unnest(%(starts)s::bigint[], %(contents)s::text[], %(tsvs)s::text[], %(terms)b::bytea[], %(tokens)b::bytea[],
    %(traits)s::smallint[], %(embeddings)b::halfvec[])
    WITH ORDINALITY AS g (start, content, tsv, terms, tokens, traits, embedding, ordinal)
JOIN (
    SELECT * FROM items WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND content_hash = %(content_hash)s
        AND anonymized_at IS NULL AND deleted_at IS NULL
    FOR SHARE  -- an item that is being forgotten is waited for, and then gets no passages
) i ON true
RETURNING 1

-- name: items_with_passages
-- Items whose passages another model embedded.
SELECT DISTINCT item_id FROM passages WHERE tenant_id = %(tenant_id)s AND model_id IS DISTINCT FROM %(model_id)s

-- name: save_entities
-- Entities of items, each once per tenant, and the items that mention them.
WITH present AS MATERIALIZED (
    SELECT item_id, CASE WHEN scope IN ('user', 'session') THEN user_id END AS user_id FROM items
    WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND anonymized_at IS NULL
    FOR SHARE  -- an item that is being forgotten is waited for, and then mentions nothing
), given AS (
    SELECT g.*, present.user_id FROM unnest(
        %(entity_ids)s::uuid[], %(entity_kinds)s::text[], %(entity_names)s::text[], %(entity_keys)s::text[], %(item_ids)s::uuid[])
        AS g (entity_id, kind, name, key, item_id) JOIN present ON present.item_id = g.item_id
), known AS MATERIALIZED (
    SELECT e.entity_id, e.key FROM entities e WHERE e.tenant_id = %(tenant_id)s AND e.key IN (SELECT key FROM given)
), added AS (
    -- An entity that another writer adds at this moment cannot be read yet: the conflict returns it.
    INSERT INTO entities (tenant_id, entity_id, kind, name, key)
    SELECT DISTINCT ON (key) %(tenant_id)s::uuid, entity_id, kind, name, key FROM given
    WHERE key NOT IN (SELECT key FROM known) ORDER BY key
    ON CONFLICT (tenant_id, key) DO UPDATE SET name = entities.name
    RETURNING entity_id, key
), named AS (
    SELECT entity_id, key FROM known UNION ALL SELECT entity_id, key FROM added
)
INSERT INTO mentions (tenant_id, entity_id, item_id, user_id)
SELECT DISTINCT %(tenant_id)s::uuid, n.entity_id, g.item_id, g.user_id FROM given g JOIN named n USING (key)
ON CONFLICT (tenant_id, entity_id, item_id) DO NOTHING
RETURNING 1

-- name: delete_mentions
-- Delete the mentions of items, before they are found again.
DELETE FROM mentions WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)

-- name: newest_of_all
-- The newest live items of the tenant.
SELECT i.item_id FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.live ORDER BY i.item_id DESC LIMIT %(limit)s

-- name: newest_of_owners
-- The newest live items of these owners, and of an owner's sessions where they are named; found by their owner, however large
-- the tenant is.
SELECT item_id FROM (
    SELECT i.item_id FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.live AND i.owner COLLATE "C" = ANY(%(owners)s::text[])
    UNION
    SELECT i.item_id FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.live AND i.owner COLLATE "C" >= %(sessions_from)s::text
        AND i.owner COLLATE "C" < %(sessions_to)s::text) i
ORDER BY item_id DESC LIMIT %(limit)s

-- name: items_mentioning
-- The newest live items that the identity may see and that mention all of these entities, before an id.
SELECT i.item_id FROM mentions m JOIN items i ON i.tenant_id = m.tenant_id AND i.item_id = m.item_id
WHERE m.tenant_id = %(tenant_id)s AND m.entity_id = %(entity_id)s AND m.item_id < %(before)s AND i.live AND {may_see}
    AND (%(other_id)s::uuid IS NULL OR EXISTS (
        SELECT 1 FROM mentions o WHERE o.tenant_id = %(tenant_id)s AND o.entity_id = %(other_id)s AND o.item_id = m.item_id))
ORDER BY m.item_id DESC LIMIT %(limit)s

-- name: may_see
-- Fragment: an item i that the identity may see; an administrator sees all of the user and agent that it names.
(i.scope = 'tenant' OR (i.scope = 'user' AND i.user_id = %(user_id)s) OR (i.scope = 'agent' AND i.agent_id = %(agent_id)s)
    OR (i.scope = 'session' AND i.owned_by = %(owned_by)s AND i.session_id = ANY(%(session_ids)s))
    OR (%(is_admin)s AND (%(user_id)s::text IS NULL OR i.user_id = %(user_id)s)
        AND (%(agent_id)s::text IS NULL OR i.agent_id = %(agent_id)s)))

-- name: entities_of
-- The entities that these items mention, those in most of them first.
SELECT e.entity_id, e.kind, e.name, n.items FROM (
    SELECT m.entity_id, count(*) AS items FROM mentions m
    WHERE m.tenant_id = %(tenant_id)s AND m.item_id = ANY(%(item_ids)s) GROUP BY m.entity_id
    ORDER BY count(*) DESC, m.entity_id LIMIT %(limit)s) n
JOIN entities e ON e.tenant_id = %(tenant_id)s AND e.entity_id = n.entity_id
ORDER BY n.items DESC, e.entity_id

-- name: links_between
-- Pairs of these entities that these items mention together, those in most of them first, each with its newest items.
WITH named AS MATERIALIZED (
    SELECT m.item_id, m.entity_id FROM mentions m
    WHERE m.tenant_id = %(tenant_id)s AND m.item_id = ANY(%(item_ids)s) AND m.entity_id = ANY(%(entity_ids)s)
)
SELECT one.entity_id AS one_id, other.entity_id AS other_id, count(*) AS items,
    (array_agg(one.item_id ORDER BY one.item_id DESC))[1:3] AS item_ids
FROM named one JOIN named other ON other.item_id = one.item_id AND other.entity_id > one.entity_id
GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2 LIMIT %(limit)s

-- name: count_vectors
-- How many live vectors of a model one who asks may see: those that all share, and the most that a user or agent has.
SELECT COALESCE(max(n) FILTER (WHERE NOT is_shared), 0) + COALESCE(max(n) FILTER (WHERE is_shared), 0) FROM (
    SELECT scope = 'tenant' AS is_shared, count(*) AS n FROM vectors
    WHERE tenant_id = %(tenant_id)s AND model_id = %(model_id)s AND live
    GROUP BY scope = 'tenant',
        CASE WHEN scope IN ('user', 'session') AND user_id IS NOT NULL THEN 'user:' || user_id ELSE owner END) o

-- name: is_filling
-- Whether a twentieth of the tenant's items was written between two ids.
SELECT count(*) * 20 > (
    SELECT COALESCE(sum(items), 0) FROM item_counts WHERE tenant_id = %(tenant_id)s AND state IN ('live', 'archived'))
FROM items WHERE tenant_id = %(tenant_id)s AND item_id >= %(first)s AND item_id < %(past)s

-- name: items_without_vector
-- Items that a model has not embedded yet, a page at a time.
SELECT i.item_id FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.item_id > %(after)s AND i.anonymized_at IS NULL AND i.deleted_at IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM vectors v
        WHERE v.tenant_id = %(tenant_id)s AND v.model_id = %(model_id)s AND v.item_id = i.item_id)
ORDER BY i.item_id LIMIT %(limit)s

-- name: count_items
-- How many items can have a vector.
SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND anonymized_at IS NULL AND deleted_at IS NULL

-- name: count_without_vector
-- How many items a model has not embedded yet.
SELECT count(*) FROM items i
WHERE i.tenant_id = %(tenant_id)s AND i.anonymized_at IS NULL AND i.deleted_at IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM vectors v
        WHERE v.tenant_id = %(tenant_id)s AND v.model_id = %(model_id)s AND v.item_id = i.item_id)

-- name: delete_other_vectors
-- Drop the vectors of every other model.
DELETE FROM vectors WHERE tenant_id = %(tenant_id)s AND model_id <> %(model_id)s

-- name: delete_vectors
-- Drop the tenant's vectors of one model.
DELETE FROM vectors WHERE tenant_id = %(tenant_id)s AND model_id = %(model_id)s

-- name: texts_to_index
-- Content and speaker of items, a page at a time, to derive their index columns again.
SELECT item_id, kind, content, speaker, metadata FROM items
WHERE tenant_id = %(tenant_id)s AND item_id > %(after)s AND anonymized_at IS NULL AND deleted_at IS NULL
ORDER BY item_id LIMIT %(limit)s

-- name: save_index
-- Index columns of items, derived again.
UPDATE items i SET tsv = g.tsv::tsvector, terms = g.terms, tokens = g.tokens, traits = g.traits
FROM unnest(%(item_ids)s::uuid[], %(tsvs)s::text[], %(terms)s::bytea[], %(tokens)s::bytea[], %(traits)s::smallint[])
    AS g (item_id, tsv, terms, tokens, traits)
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL

-- name: find_models
-- The model that recall uses, the model that the tenant moves to, the settings, and whether any text was cut into passages.
SELECT embedding_model AS active, embedding_target AS target, settings,
    EXISTS (SELECT 1 FROM passages p WHERE p.tenant_id = %(tenant_id)s) AS has_passages
FROM tenants WHERE tenant_id = %(tenant_id)s

-- name: choose_model
-- Set the model that recall uses, unless one is set.
UPDATE tenants SET embedding_model = %(model_id)s WHERE tenant_id = %(tenant_id)s AND embedding_model IS NULL

-- name: aim_at_model
-- Set the model that the tenant moves to.
UPDATE tenants SET embedding_target = %(model_id)s WHERE tenant_id = %(tenant_id)s

-- name: switch_model
-- Recall uses another model from now on.
UPDATE tenants SET embedding_model = %(model_id)s, embedding_target = NULL WHERE tenant_id = %(tenant_id)s

-- name: list_indexes
-- Every vector index of a tenant, with its approximate size; the catalogue is the only record of them.
SELECT c.relname AS name, i.indisvalid AS is_valid, GREATEST(c.reltuples, 0)::bigint AS rows
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = 'recordari.vectors'::regclass AND starts_with(c.relname, %(prefix)s)

-- name: vector_dimensions
-- How long the tenant's vectors of a model are.
SELECT public.vector_dims(embedding) FROM vectors
WHERE tenant_id = %(tenant_id)s AND model_id = %(model_id)s AND live LIMIT 1

-- name: prepare_build
-- Act as the owner of the tables and no more; one process, because shared memory is scarce in a container.
SET ROLE recordari_owner; SET search_path = recordari, public; SET application_name = 'recordari vector index';
SET max_parallel_maintenance_workers = 0; SET maintenance_work_mem = {memory}; SET statement_timeout = {timeout}

-- name: try_lock
-- One build at a time. Never waited for: a build would wait for every statement that waits.
SELECT pg_try_advisory_lock({lock})

-- name: create_index
-- The index of one tenant's live vectors of one model; writes do not wait for it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON recordari.vectors
USING hnsw ((embedding::halfvec({dimensions})) halfvec_ip_ops) WITH (m = 16, ef_construction = {effort})
WHERE tenant_id = {tenant_id} AND model_id = {model_id} AND live

-- name: drop_index
-- Drop an index; writes do not wait for it.
DROP INDEX CONCURRENTLY IF EXISTS recordari.{name}
