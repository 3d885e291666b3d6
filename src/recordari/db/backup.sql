-- name: has_tenants_table
-- Whether this database has been migrated at all.
SELECT to_regclass('recordari.tenants') IS NOT NULL

-- name: reader
-- The connected role, and whether row-level security would hide rows from its dump.
SELECT current_user::text AS role,
    NOT (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) AND EXISTS (
        SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relrowsecurity
            AND (c.relforcerowsecurity OR NOT pg_has_role(current_user, c.relowner, 'USAGE'))
    ) AS rows_hidden

-- name: list_tables
-- The tables of both schemas.
SELECT n.nspname::text AS schema_name, c.relname::text AS table_name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY 1, 2

-- name: become_owner
-- Act as the owner, the only role that may read the directory of tenants.
SET ROLE recordari_owner
