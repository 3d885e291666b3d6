-- name: make_schema
-- Fragment: the schema of the functions that nodes run; the application may call them.
CREATE SCHEMA IF NOT EXISTS recordari_nodes AUTHORIZATION recordari_owner;
GRANT USAGE ON SCHEMA recordari_nodes TO recordari_app, recordari_tenant, recordari_retention, recordari_readonly

-- name: enter_shard
-- Fragment: the function that finds the shard of a tenant: NULL if it is on another node. A writer holds it in its place until the
-- commit, as Citus does for its own statements: what moves the shard waits for that. The lock is a table owner's alone.
CREATE OR REPLACE FUNCTION recordari_nodes.enter_shard(of_tenant uuid, will_write boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $node$
DECLARE
    shard bigint := get_shard_id_for_distribution_column('recordari.tenants'::regclass, of_tenant);
BEGIN
    IF will_write THEN
        PERFORM lock_shard_metadata(5, ARRAY[shard]);  -- 5 is SHARE
    END IF;
    RETURN (SELECT p.shardid FROM pg_dist_placement p JOIN pg_dist_local_group g ON g.groupid = p.groupid WHERE p.shardid = shard);
END $node$;
ALTER FUNCTION recordari_nodes.enter_shard(uuid, boolean) OWNER TO recordari_owner;
REVOKE ALL ON FUNCTION recordari_nodes.enter_shard(uuid, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recordari_nodes.enter_shard(uuid, boolean)
    TO recordari_app, recordari_tenant, recordari_retention, recordari_readonly

-- name: on_shard
-- Fragment: the function that runs a statement on the tables of one shard. The plan is kept; it is made for one role, so that each
-- has a place of its own.
CREATE OR REPLACE FUNCTION recordari_nodes.{name}_{shard}({arguments}) RETURNS TABLE ({columns}) LANGUAGE plpgsql
SET search_path = recordari, recordari_queue, public SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $node$
#variable_conflict use_column
BEGIN
    IF current_user = 'recordari_tenant' THEN
        RETURN QUERY {statement};
    ELSE
        RETURN QUERY {statement};
    END IF;
END $node$

-- name: on_node
-- Fragment: the function that the node of a tenant runs: it binds the transaction, and calls the function of the shard.
CREATE OR REPLACE FUNCTION recordari_nodes.{name}(uuid, text, text, text{arguments}) RETURNS TABLE ({columns}) LANGUAGE plpgsql AS $node$
DECLARE
    shard bigint := recordari_nodes.enter_shard($1, {will_write});
BEGIN
    PERFORM set_config('app.tenant_id', $1::text, true), set_config('app.user_id', $2, true), set_config('role', $3, true),
        pg_advisory_xact_lock(recordari.thread_lock($1, $4));
    CASE shard
        {cases}
        ELSE RAISE EXCEPTION 'the tenant is on another node' USING ERRCODE = 'RN001';
    END CASE;
END $node$

-- name: case_of_shard
-- Fragment: the call of the function of one shard.
WHEN {shard} THEN RETURN QUERY SELECT * FROM recordari_nodes.{name}_{shard}({values})

-- name: call
-- Fragment: the statement that runs the function on the node of its first argument.
SELECT * FROM recordari_nodes.{name}(%(node_tenant)s, %(node_user)s, %(node_role)s, %(node_thread)s{values})

-- name: drop_schema
-- Fragment: takes all functions away.
DROP SCHEMA IF EXISTS recordari_nodes CASCADE

-- name: list_shards
-- Cluster: the shards of every divided table, those of the same tenants with the same number.
SELECT n.nspname AS schema, c.relname AS table, s.shardid AS shard,
    row_number() OVER (PARTITION BY c.oid ORDER BY s.shardminvalue::integer) AS number
FROM pg_dist_shard s JOIN pg_class c ON c.oid = s.logicalrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('recordari', 'recordari_queue') AND s.shardminvalue IS NOT NULL

-- name: list_numbered
-- Cluster: the columns that sequences number. A shard has no such default: Citus numbers its rows before they get there.
SELECT c.relname AS table, a.attname AS column, pg_get_expr(d.adbin, d.adrelid) AS number
FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE n.nspname IN ('recordari', 'recordari_queue') AND pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%'

-- name: name_types
-- Cluster: the names of types.
SELECT t.oid AS type, format_type(t.oid, NULL) AS name FROM pg_type t WHERE t.oid = ANY(%(types)s)

-- name: delegate
-- Cluster: let a function run on the node of the tenant that is its first argument.
SELECT create_distributed_function(
    p.oid, '$1', colocate_with => 'recordari.tenants', force_delegation => true)
FROM pg_proc p WHERE p.pronamespace = 'recordari_nodes'::regnamespace AND p.proname = %(name)s
