-- name: insert_database
-- Connect a database.
INSERT INTO databases (tenant_id, database_id, name, description, engine, sealed_dsn, tables, schema, warnings, refreshed_at)
VALUES (%(tenant_id)s, %(database_id)s, %(name)s, %(description)s, %(engine)s, %(sealed_dsn)s, %(tables)s, %(schema)s,
    %(warnings)s, now())
RETURNING database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at

-- name: find_database
-- One database, without its DSN.
SELECT database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at
FROM databases WHERE tenant_id = %(tenant_id)s AND database_id = %(database_id)s

-- name: find_by_name
-- One database by its name, without its DSN.
SELECT database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at
FROM databases WHERE tenant_id = %(tenant_id)s AND name = %(name)s

-- name: list_databases
-- Every database by name, without its DSN.
SELECT database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at
FROM databases WHERE tenant_id = %(tenant_id)s ORDER BY name

-- name: sealed_dsn
-- The sealed DSN of one database.
SELECT sealed_dsn FROM databases WHERE tenant_id = %(tenant_id)s AND database_id = %(database_id)s

-- name: update_database
-- Change a database that nobody has changed meanwhile; the DSN only if there is a new one.
UPDATE databases SET name = %(name)s, description = %(description)s, engine = %(engine)s, tables = %(tables)s,
    sealed_dsn = COALESCE(%(sealed_dsn)s, sealed_dsn), schema = %(schema)s, warnings = %(warnings)s,
    refreshed_at = %(refreshed_at)s, updated_at = now()
WHERE tenant_id = %(tenant_id)s AND database_id = %(database_id)s AND updated_at = %(seen_at)s
RETURNING database_id, name, description, engine, tables, schema, warnings, refreshed_at, created_at, updated_at

-- name: delete_database
-- Disconnect a database.
DELETE FROM databases WHERE tenant_id = %(tenant_id)s AND database_id = %(database_id)s
