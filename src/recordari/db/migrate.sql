-- name: lock
-- Only one process of a database migrates at a time.
SELECT pg_advisory_lock(%(key)s)

-- name: unlock
-- Let the next process migrate.
SELECT pg_advisory_unlock(%(key)s)

-- name: has_database
-- Whether there is a database of that name.
SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = %(name)s)

-- name: has_role
-- Whether there is a role of that name.
SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %(name)s)

-- name: is_bootstrapped
-- Whether the schemas, the extensions and the login's memberships all exist.
SELECT to_regnamespace('recordari') IS NOT NULL AND to_regnamespace('recordari_queue') IS NOT NULL
    AND (SELECT count(*) FROM pg_extension WHERE extname IN ('vector', 'pg_trgm', 'btree_gin')) = 3
    AND EXISTS (
        SELECT 1 FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles u ON u.oid = m.member
        WHERE g.rolname = 'recordari_retention' AND u.rolname = %(login)s)

-- name: checkpoint
-- Write everything to the files.
CHECKPOINT

-- name: become_owner
-- Act as the owner until the transaction ends.
SET LOCAL ROLE recordari_owner

-- name: has_full_tenants
-- Whether the migration that made the following function was applied.
SELECT to_regprocedure('recordari.expect_full_tenants()') IS NOT NULL

-- name: expect_full_tenants
-- Let the planner expect many rows of each tenant in every table, new ones too.
SELECT recordari.expect_full_tenants()

-- name: create_record
-- The record of the applied steps.
CREATE TABLE IF NOT EXISTS recordari.schema_migrations (
    name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())

-- name: show_record
-- The application checks that it has the schema it expects.
GRANT SELECT ON recordari.schema_migrations TO recordari_app

-- name: has_record
-- Whether any step was ever applied.
SELECT to_regclass('recordari.schema_migrations') IS NOT NULL

-- name: applied
-- The applied steps, with checksums.
SELECT name, checksum FROM recordari.schema_migrations

-- name: record
-- Record steps as applied.
INSERT INTO recordari.schema_migrations (name, checksum)
SELECT * FROM unnest(%(names)s::text[], %(checksums)s::text[])

-- name: division
-- Whether the tables are divided among the nodes of a cluster; NULL: the database has no Citus.
SELECT EXISTS (
    SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE t.tgrelid = to_regclass('recordari.tenants') AND p.proname = 'citus_truncate_trigger')
FROM pg_extension WHERE extname = 'citus'

-- name: stay_here
-- Hand on no change of the schema to other nodes.
SET citus.enable_ddl_propagation = off

-- name: make_here
-- Hand on no change of the schema to other nodes, until the transaction ends or says otherwise.
SET LOCAL citus.enable_ddl_propagation = off

-- name: hand_on
-- Hand on every change of the schema again.
SET LOCAL citus.enable_ddl_propagation = on

-- name: divide_new
-- Cluster: divide a new table that has a tenant, in the same parts as the tenants.
SELECT create_distributed_table(c.oid::regclass, 'tenant_id', colocate_with => 'recordari.tenants')
FROM pg_class c WHERE c.oid = to_regclass(%(name)s) AND EXISTS (
    SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)

-- name: one_by_one
-- Change the parts of a divided table one by one, so that one transaction may do so for several tables.
SET LOCAL citus.multi_shard_modify_mode = sequential
