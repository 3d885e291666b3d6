-- name: list_indexes
-- Every index over one tenant's vectors, with about how many it holds; the catalogue is the only record of them.
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
-- One build at a time. Asked for again and again, never waited for: a build waits for all who wait in a statement.
SELECT pg_try_advisory_lock({lock})

-- name: create_index
-- The index of one tenant's live vectors of one model; nobody's writes wait for it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON recordari.vectors
USING hnsw ((embedding::halfvec({dimensions})) halfvec_ip_ops) WITH (m = 16, ef_construction = {effort})
WHERE tenant_id = {tenant_id} AND model_id = {model_id} AND live

-- name: drop_index
-- Take an index away; nobody's writes wait for it.
DROP INDEX CONCURRENTLY IF EXISTS recordari.{name}
