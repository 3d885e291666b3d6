-- name: columns
-- Columns of all tables that the user may read.
SELECT c.table_schema AS schema_name, c.table_name AS table_name, c.column_name AS column_name,
    c.column_type AS type_name, NULLIF(c.column_comment, '') AS comment, NULLIF(t.table_comment, '') AS table_comment,
    (SELECT CONCAT(k.referenced_table_name, '.', k.referenced_column_name) FROM information_schema.key_column_usage k
        WHERE k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.column_name = c.column_name
            AND k.referenced_table_name IS NOT NULL LIMIT 1) AS refers_to
FROM information_schema.columns c JOIN information_schema.tables t
    ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY c.table_schema, c.table_name, c.ordinal_position

-- name: current_schema
-- The schema that a table without one is in.
SELECT DATABASE() AS name

-- name: powers
-- What the user was granted besides reading, on the server, a schema or a table.
SELECT DISTINCT privilege_type AS power FROM (
    SELECT privilege_type FROM information_schema.user_privileges
    UNION ALL SELECT privilege_type FROM information_schema.schema_privileges
    UNION ALL SELECT privilege_type FROM information_schema.table_privileges
) held WHERE privilege_type NOT IN ('SELECT', 'USAGE', 'SHOW VIEW', 'SHOW DATABASES')
