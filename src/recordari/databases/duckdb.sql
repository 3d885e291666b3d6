-- name: columns
-- Columns of all tables and views.
SELECT schema_name, table_name, column_name, data_type AS type_name, comment, NULL AS table_comment, NULL AS refers_to
FROM duckdb_columns() WHERE NOT internal ORDER BY schema_name, table_name, column_index
