-- name: columns
-- Columns of all tables and views.
SELECT NULL AS schema_name, m.name AS table_name, c.name AS column_name, c.type AS type_name, NULL AS comment,
    NULL AS table_comment, (SELECT k."table" || '.' || COALESCE(k."to", 'id') FROM pragma_foreign_key_list(m.name) k
        WHERE k."from" = c.name LIMIT 1) AS refers_to
FROM sqlite_schema m JOIN pragma_table_info(m.name) c
WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite\_%' ESCAPE '\'
ORDER BY m.name, c.cid
