-- name: insert_database
-- A database that is asked from now on.
INSERT INTO databases (tenant_id, database_id, name, description, engine, sealed_dsn, tables, schema, warnings, refreshed_at)
VALUES (%(tenant_id)s, %(database_id)s, %(name)s, %(description)s, %(engine)s, %(sealed_dsn)s, %(tables)s, %(schema)s,
    %(warnings)s, now())
RETURNING database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at

-- name: find_database
-- One database, without the way in.
SELECT database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at
FROM databases WHERE tenant_id = %(tenant_id)s AND database_id = %(database_id)s

-- name: find_by_name
-- One database by its name, without the way in.
SELECT database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at
FROM databases WHERE tenant_id = %(tenant_id)s AND name = %(name)s

-- name: list_databases
-- Every database by name, without the way in.
SELECT database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at
FROM databases WHERE tenant_id = %(tenant_id)s ORDER BY name

-- name: sealed_dsn
-- The way into one database, sealed.
SELECT sealed_dsn FROM databases WHERE tenant_id = %(tenant_id)s AND database_id = %(database_id)s

-- name: update_database
-- Change what is said about a database, its tables or the way in, with what was seen by it.
UPDATE databases SET name = %(name)s, description = %(description)s, engine = %(engine)s, tables = %(tables)s,
    sealed_dsn = COALESCE(%(sealed_dsn)s, sealed_dsn), schema = %(schema)s, warnings = %(warnings)s,
    refreshed_at = %(refreshed_at)s, updated_at = now()
WHERE tenant_id = %(tenant_id)s AND database_id = %(database_id)s AND updated_at = %(seen_at)s
RETURNING database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at

-- name: delete_database
-- Forget a database.
DELETE FROM databases WHERE tenant_id = %(tenant_id)s AND database_id = %(database_id)s
