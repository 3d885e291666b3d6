-- name: columns
-- Columns of all tables, views and foreign tables that the role may read.
SELECT n.nspname AS schema_name, c.relname AS table_name, a.attname AS column_name,
    format_type(a.atttypid, a.atttypmod) AS type_name, col_description(c.oid, a.attnum) AS comment,
    obj_description(c.oid, 'pg_class') AS table_comment,
    (SELECT rn.nspname || '.' || rc.relname || '.' || ra.attname FROM pg_constraint k
        JOIN pg_class rc ON rc.oid = k.confrelid JOIN pg_namespace rn ON rn.oid = rc.relnamespace
        JOIN pg_attribute ra ON ra.attrelid = k.confrelid AND ra.attnum = k.confkey[1]
        WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.conkey = ARRAY[a.attnum] LIMIT 1) AS refers_to
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\_toast%' AND has_column_privilege(c.oid, a.attnum, 'SELECT')
ORDER BY 1, 2, a.attnum

-- name: powers
-- What the role could do besides reading.
SELECT r.rolsuper AS is_superuser, r.rolcreaterole AS creates_roles, r.rolreplication AS replicates,
    r.rolbypassrls AS bypasses_rls,
    COALESCE((SELECT bool_or(pg_has_role(g.rolname, 'MEMBER')) FROM pg_roles g WHERE g.rolname IN
        ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files', 'pg_write_all_data')), false)
        AS has_server_powers,
    EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
            AND pg_has_role(c.relowner, 'USAGE')) AS owns_tables,
    EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
            AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')) AS writes_tables
FROM pg_roles r WHERE r.rolname = current_user

-- name: find_extensions
-- Put the schemas on the search path that hold functions and operators of these extensions and no others: nobody can plant one there.
SELECT set_config('search_path', concat_ws(', ', 'pg_catalog', string_agg(quote_ident(n.nspname), ', ')), true)
FROM pg_namespace n
WHERE n.oid IN (SELECT x.extnamespace FROM pg_extension x WHERE x.extname IN ('pg_trgm', 'fuzzystrmatch', 'unaccent'))
    AND NOT EXISTS (
        SELECT 1 FROM (
            SELECT 'pg_proc'::regclass AS class, p.oid FROM pg_proc p WHERE p.pronamespace = n.oid
            UNION ALL SELECT 'pg_operator'::regclass, o.oid FROM pg_operator o WHERE o.oprnamespace = n.oid) AS made
        WHERE NOT EXISTS (
            SELECT 1 FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid
            WHERE d.classid = made.class AND d.objid = made.oid AND d.refclassid = 'pg_extension'::regclass
                AND d.deptype = 'e' AND x.extname IN ('pg_trgm', 'fuzzystrmatch', 'unaccent')))
