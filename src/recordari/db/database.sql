-- name: ping
-- Check that the server answers.
SELECT 1

-- name: role_powers
-- The powers of the connected role that bypass row-level security; all must be false.
SELECT
    current_user::text AS role,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
    (SELECT rolbypassrls FROM pg_roles WHERE rolname = current_user) AS bypassrls,
    COALESCE((SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = 'recordari_owner'), false)
        AS owner_member,
    EXISTS (
        SELECT 1 FROM pg_roles WHERE rolname IN ('recordari_tenant', 'recordari_retention') AND pg_has_role(current_user, oid, 'USAGE')
    ) AS inherits_all_users,
    EXISTS (
        SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'recordari' AND c.relkind IN ('r', 'p') AND pg_has_role(current_user, c.relowner, 'MEMBER')
    ) AS owns_tables,
    EXISTS (
        SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'recordari' AND c.relkind IN ('r', 'p') AND has_table_privilege(current_user, c.oid, 'TRUNCATE')
    ) AS truncates_tables
