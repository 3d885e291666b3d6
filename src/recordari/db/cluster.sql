-- name: citus_version
-- The version of Citus in this database; no row: it has none.
SELECT extversion FROM pg_extension WHERE extname = 'citus'

-- name: list_nodes
-- The nodes of the cluster, and whether each may hold shards.
SELECT nodeid AS node_id, nodename || ':' || nodeport AS address, groupid = 0 AS is_coordinator, isactive AS is_active,
    shouldhaveshards AS holds_shards
FROM pg_dist_node WHERE noderole = 'primary' ORDER BY groupid, nodeid

-- name: describe_nodes
-- What each node says of itself.
SELECT nodeid AS node_id, success AS answers, result FROM run_command_on_all_nodes(%(command)s)

-- name: describe_node
-- Fragment: versions and settings of one node, as JSON.
SELECT jsonb_build_object(
    'postgres', current_setting('server_version_num'),
    'citus', (SELECT extversion FROM pg_extension WHERE extname = 'citus'),
    'extensions', (SELECT jsonb_object_agg(name, default_version) FROM pg_available_extensions
        WHERE name IN ('vector', 'pg_trgm', 'btree_gin')),
    'preloaded', current_setting('shared_preload_libraries'),
    'citus.enable_unsafe_triggers', current_setting('citus.enable_unsafe_triggers'),
    'citus.allow_nested_distributed_execution', current_setting('citus.allow_nested_distributed_execution'),
    'citus.propagate_set_commands', current_setting('citus.propagate_set_commands'),
    'max_prepared_transactions', current_setting('max_prepared_transactions'))

-- name: list_tables
-- The tables that a cluster divides by tenant, whether it does so already, and the tables that each refers to.
SELECT format('%%I.%%I', n.nspname, c.relname) AS name, d.logicalrelid IS NOT NULL AS is_distributed, ARRAY(
    SELECT DISTINCT format('%%I.%%I', fn.nspname, f.relname) FROM pg_constraint k
    JOIN pg_class f ON f.oid = k.confrelid JOIN pg_namespace fn ON fn.oid = f.relnamespace
    WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid <> c.oid) AS refers_to
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_dist_partition d ON d.logicalrelid = c.oid AND d.partmethod = 'h'
WHERE c.relkind = 'r' AND (n.nspname = 'recordari' AND EXISTS (
        SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
    OR n.nspname = 'recordari_queue' AND c.relname = 'outbox')
    AND NOT EXISTS (SELECT 1 FROM pg_dist_shard s WHERE c.relname ~ ('_' || s.shardid || '$'))
ORDER BY 1

-- name: list_triggers
-- Our triggers on these tables, and the statement that makes each.
SELECT t.tgname AS name, format('%%I.%%I', n.nspname, c.relname) AS relation, pg_get_triggerdef(t.oid) AS definition
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND n.nspname = 'recordari' AND p.pronamespace = n.oid ORDER BY 2, 1

-- name: number_on
-- Number new rows of the coordinator after all that the nodes have numbered, gone ones too: a reader has seen their numbers.
SELECT setval(s.name::regclass, (
    SELECT max(result::bigint) FROM run_command_on_all_nodes('SELECT last_value FROM ' || s.name)))
FROM unnest(ARRAY['recordari.events_number_seq', 'recordari.item_counts_number_seq',
    'recordari.profile_changes_change_id_seq', 'recordari_queue.outbox_outbox_id_seq']) AS s (name)

-- name: number_erasures
-- Number erasures that are not finished by the server that has them now: older writers are known by its numbers.
UPDATE recordari.erasures SET requested_at = requested_at WHERE finished_at IS NULL

-- name: list_placements
-- The tenants' shards on each node, and their bytes.
SELECT nodename || ':' || nodeport AS address, count(*) FILTER (WHERE table_name = 'recordari.tenants'::regclass) AS shards,
    sum(shard_size)::bigint AS bytes
FROM citus_shards WHERE citus_table_type = 'distributed' GROUP BY 1 ORDER BY 1

-- name: other_users
-- Server and worker processes of Recordari that are connected.
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'recordari'

-- name: list_logins
-- The roles that may act as the application.
SELECT u.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles u ON u.oid = m.member
WHERE g.rolname = 'recordari_app' AND u.rolcanlogin AND u.rolname NOT LIKE 'recordari\_%%'

-- name: run_on_workers
-- Run a command on every worker node.
SELECT nodename || ':' || nodeport AS address, success, result FROM run_command_on_workers(%(command)s)

-- name: distribute_first
-- Divide the directory of tenants; every other table goes with it.
SELECT create_distributed_table('recordari.tenants', 'tenant_id', shard_count => %(shards)s::integer, colocate_with => 'none')

-- name: distribute_table
-- Divide a table by tenant, in the same parts as the tenants.
SELECT create_distributed_table(%(name)s::text::regclass, 'tenant_id', colocate_with => 'recordari.tenants')

-- name: shape_policies
-- Give policies the form that a cluster takes, or that of one server.
SELECT recordari.shape_policies(%(is_divided)s)

-- name: list_functions
-- Functions that triggers, policies and statements call on the nodes.
SELECT p.oid::regprocedure::text AS name, p.proname IN ('forget_reasons', 'pseudonymise_audit') AS goes_to_tenant,
    p.prolang = (SELECT l.oid FROM pg_language l WHERE l.lanname = 'plpgsql') AS plans
FROM pg_proc p
WHERE p.pronamespace = 'recordari'::regnamespace
    AND p.proname NOT IN ('sample_no_text', 'expect_full_tenants', 'renew_samples', 'bind_nodes', 'shape_policies')
ORDER BY 1

-- name: distribute_function
-- Make a function on every node, now and whenever it changes.
SELECT create_distributed_function(%(name)s::text::regprocedure)

-- name: delegate_function
-- Let a function run on the node of the tenant that is its first argument.
SELECT create_distributed_function(
    %(name)s::text::regprocedure, '$1', colocate_with => 'recordari.tenants', force_delegation => true)

-- name: closed_functions
-- Functions that not everybody may call, and who may.
SELECT p.oid::regprocedure::text AS name, ARRAY(
    SELECT a.grantee::regrole::text FROM aclexplode(p.proacl) a WHERE a.grantee <> p.proowner AND a.grantee <> 0) AS callers
FROM pg_proc p
WHERE p.pronamespace = 'recordari'::regnamespace AND p.proacl IS NOT NULL
    AND p.proname NOT IN ('sample_no_text', 'expect_full_tenants', 'renew_samples', 'bind_nodes', 'shape_policies')
    AND NOT EXISTS (SELECT 1 FROM aclexplode(p.proacl) a WHERE a.grantee = 0)

-- name: undistribute_table
-- Bring all rows of a table back to the coordinator.
SELECT undistribute_table(%(name)s::text::regclass, cascade_via_foreign_keys => true)
