-- Who is signed in to the dashboard: a browser holds a token, and the row says whose it is. A one-time code is such a row
-- too, until it is exchanged.
CREATE TABLE sign_ins (
    tenant_id uuid NOT NULL REFERENCES tenants,
    sign_in_id uuid NOT NULL,
    secret_hash bytea NOT NULL,
    is_code boolean NOT NULL,
    actor text NOT NULL,
    role text NOT NULL CHECK (role IN ('agent', 'admin')),
    user_id text,
    key_id uuid,                        -- it ends with its key
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, sign_in_id)
);
ALTER TABLE sign_ins ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_and_user ON sign_ins TO recordari_app
    USING (tenant_id = current_tenant() AND user_id = current_app_user())
    WITH CHECK (tenant_id = current_tenant() AND user_id = current_app_user());
CREATE POLICY tenant ON sign_ins TO recordari_tenant, recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, DELETE ON sign_ins TO recordari_app;
GRANT SELECT, DELETE ON sign_ins TO recordari_retention;

SELECT sample_no_text();
