-- name: ping
-- Answers if the server does.
SELECT 1

-- name: role_powers
-- What the connected role holds that row-level security would not bind; all must be false.
SELECT
    current_user::text AS role,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
    (SELECT rolbypassrls FROM pg_roles WHERE rolname = current_user) AS bypassrls,
    COALESCE((SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = 'recollect_owner'), false)
        AS owner_member,
    EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'recollect' AND c.relkind IN ('r', 'p') AND pg_has_role(current_user, c.relowner, 'MEMBER')
    ) AS owns_tables,
    EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'recollect' AND c.relkind IN ('r', 'p') AND has_table_privilege(current_user, c.oid, 'TRUNCATE')
    ) AS truncates_tables
