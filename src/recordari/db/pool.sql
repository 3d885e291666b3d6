-- name: server_process
-- The server process that answers this transaction.
SELECT pg_backend_pid()

-- name: is_distributed
-- Whether the tables are divided among the nodes of a Citus cluster: it gives each such table a trigger.
SELECT EXISTS (
    SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE t.tgrelid = to_regclass('recordari.tenants') AND p.proname = 'citus_truncate_trigger')

-- name: table_size
-- The bytes of the largest table.
SELECT pg_relation_size(to_regclass('recordari.items'))

-- name: list_functions
-- The functions that the nodes of a cluster run for us; none on one server.
SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = to_regnamespace('recordari_nodes')
