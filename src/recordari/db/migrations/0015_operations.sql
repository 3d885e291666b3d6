-- Answers by idempotency key, and reports for people.

-- An answer is encrypted with its key and its request: nobody can read it without both.
CREATE TABLE answers (
    tenant_id uuid NOT NULL REFERENCES tenants,
    key_hash bytea NOT NULL,
    request_hash bytea NOT NULL,
    claim uuid NOT NULL,                   -- which request works on it; another takes over when it fell silent
    claimed_at timestamptz NOT NULL,
    sealed bytea,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key_hash)
);
CREATE INDEX answers_by_end ON answers (tenant_id, expires_at);

CREATE TABLE reports (
    tenant_id uuid NOT NULL REFERENCES tenants,
    report_id uuid NOT NULL,
    kind text NOT NULL,
    day date NOT NULL,
    body text NOT NULL,
    figures jsonb NOT NULL DEFAULT '{}',
    warnings text[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, report_id),
    UNIQUE (tenant_id, kind, day)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON answers TO recordari_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON reports TO recordari_app, recordari_retention;
GRANT SELECT ON reports TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['answers', 'reports'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;
