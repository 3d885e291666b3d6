-- Databases of the user that `query_data` may ask (K2): their address, tables, and schema as last seen.

CREATE TABLE databases (
    tenant_id uuid NOT NULL REFERENCES tenants,
    database_id uuid NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    description text NOT NULL CHECK (length(description) <= 2000),
    engine text NOT NULL CHECK (engine IN ('postgres', 'mysql', 'sqlite', 'duckdb')),
    sealed_dsn text NOT NULL,              -- encrypted; the key is not in this database
    tables jsonb NOT NULL,
    schema jsonb NOT NULL DEFAULT '[]',
    warnings jsonb NOT NULL DEFAULT '[]',
    refreshed_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, database_id),
    UNIQUE (tenant_id, name)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON databases TO recordari_app, recordari_retention;
GRANT SELECT (tenant_id, database_id, name, description, engine, tables, refreshed_at, created_at, updated_at)
    ON databases TO recordari_readonly;
ALTER TABLE databases ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON databases TO recordari_app, recordari_retention, recordari_readonly
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
