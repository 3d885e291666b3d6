-- Tenants, users, agents, API keys, the audit and usage. Every table: tenant first in every key, FORCE row-level security.

CREATE FUNCTION current_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT NULLIF(current_setting('app.tenant_id', true), '')::uuid $$;
CREATE FUNCTION current_app_user() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT NULLIF(current_setting('app.user_id', true), '') $$;

CREATE TABLE tenants (
    tenant_id uuid PRIMARY KEY,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    language text NOT NULL DEFAULT 'english',
    plan text NOT NULL DEFAULT 'standard',
    embedding_model text,      -- whose vectors recall uses
    embedding_target text,     -- to which model the tenant is being moved
    settings jsonb NOT NULL DEFAULT '{}',
    -- Part of every hash of forgotten text, so that nobody can guess the text from a list of likely ones.
    salt bytea NOT NULL DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE users (
    tenant_id uuid NOT NULL REFERENCES tenants,
    user_id text NOT NULL CHECK (length(user_id) BETWEEN 1 AND 200),
    display_name text,
    time_zone text NOT NULL DEFAULT 'UTC',
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id)
);

CREATE TABLE agents (
    tenant_id uuid NOT NULL REFERENCES tenants,
    agent_id text NOT NULL CHECK (length(agent_id) BETWEEN 1 AND 200),
    display_name text,
    core text NOT NULL DEFAULT '',
    characteristics text NOT NULL DEFAULT '',
    model text,
    window_tokens integer NOT NULL DEFAULT 128000 CHECK (window_tokens > 0),
    version integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, agent_id)
);

CREATE TABLE api_keys (
    tenant_id uuid NOT NULL REFERENCES tenants,
    key_id uuid NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    key_hash bytea NOT NULL,
    role text NOT NULL CHECK (role IN ('agent', 'admin')),
    user_id text,
    agent_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (tenant_id, key_id)
);

-- Append-only: ids, never content.
CREATE TABLE audit (
    tenant_id uuid NOT NULL REFERENCES tenants,
    audit_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    action text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    reason text,
    details jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, audit_id)
);
CREATE INDEX audit_by_subject ON audit (tenant_id, subject_kind, subject_id);

CREATE TABLE usage (
    tenant_id uuid NOT NULL REFERENCES tenants,
    items bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    writes bigint NOT NULL DEFAULT 0,      -- of the day
    day date NOT NULL,
    measured_at timestamptz,
    PRIMARY KEY (tenant_id)
) WITH (fillfactor = 50);

GRANT SELECT, INSERT, UPDATE ON tenants, users, agents, api_keys TO recordari_app;
GRANT DELETE ON agents TO recordari_app;
GRANT SELECT ON tenants TO recordari_retention;
GRANT SELECT, UPDATE, DELETE ON users TO recordari_retention;
GRANT SELECT, UPDATE ON api_keys TO recordari_retention;
GRANT SELECT, INSERT ON audit TO recordari_app, recordari_retention;
GRANT SELECT, INSERT, UPDATE, DELETE ON usage TO recordari_app, recordari_retention;
GRANT SELECT ON tenants, users, agents, audit, usage TO recordari_readonly;

-- The owner may read the directory of tenants across tenants, to list them for an operator.
CREATE POLICY directory ON tenants FOR SELECT TO recordari_owner USING (true);

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['tenants', 'users', 'agents', 'api_keys', 'audit', 'usage'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;
