-- Keyed state of runs and sessions; procedures with their posteriors.

-- One row for whatever owns state. Writers lock it, so that a budget holds for writes at the same moment; its version
-- counts on when a key is deleted and made again, so that no old version ever fits a new value.
CREATE TABLE state_owners (
    tenant_id uuid NOT NULL REFERENCES tenants,
    owner_kind text NOT NULL CHECK (owner_kind IN ('run', 'session')),
    owner_id text NOT NULL CHECK (length(owner_id) BETWEEN 1 AND 200),
    user_id text,
    version bigint NOT NULL,
    written_at timestamptz NOT NULL,
    closed_at timestamptz,     -- its run has ended: nothing is written any more
    PRIMARY KEY (tenant_id, owner_kind, owner_id)
) WITH (fillfactor = 70);
CREATE INDEX state_owners_by_written_at ON state_owners (tenant_id, written_at);

CREATE TABLE state (
    tenant_id uuid NOT NULL,
    owner_kind text NOT NULL,
    owner_id text NOT NULL,
    key text NOT NULL,
    user_id text,
    value json NOT NULL,       -- not jsonb: what was handed in is given back, to the letter
    bytes integer NOT NULL,
    version bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz,    -- NULL: ends with its owner
    PRIMARY KEY (tenant_id, owner_kind, owner_id, key),
    FOREIGN KEY (tenant_id, owner_kind, owner_id) REFERENCES state_owners ON DELETE CASCADE
);
CREATE INDEX state_by_expires_at ON state (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

-- How to do a task, in versions. A version ends when another takes its place (superseded_by) or when it is retired.
CREATE TABLE procedures (
    tenant_id uuid NOT NULL REFERENCES tenants,
    procedure_id uuid NOT NULL,
    agent_type text NOT NULL CHECK (length(agent_type) BETWEEN 1 AND 200),
    task_type text NOT NULL CHECK (length(task_type) BETWEEN 1 AND 200),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    version integer NOT NULL,
    spec json NOT NULL,
    spec_hash bytea NOT NULL,
    -- Exact decimals: after n rewards alpha + beta has grown by n, not by nearly n.
    alpha numeric NOT NULL CHECK (alpha > 0),
    beta numeric NOT NULL CHECK (beta > 0),
    rewards bigint NOT NULL DEFAULT 0,
    valid_at timestamptz NOT NULL,
    invalid_at timestamptz,
    superseded_by uuid,
    PRIMARY KEY (tenant_id, procedure_id),
    UNIQUE (tenant_id, agent_type, task_type, name, version),
    FOREIGN KEY (tenant_id, superseded_by) REFERENCES procedures DEFERRABLE INITIALLY DEFERRED,
    CHECK (superseded_by IS NULL OR invalid_at IS NOT NULL)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX procedures_active ON procedures (tenant_id, agent_type, task_type, name) WHERE invalid_at IS NULL;

CREATE TABLE choices (
    tenant_id uuid NOT NULL,
    choice_id uuid NOT NULL,
    procedure_id uuid NOT NULL,
    agent_id text,
    session_id text,
    run_id text,
    sample double precision NOT NULL,
    candidates integer NOT NULL,
    chosen_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, choice_id),
    FOREIGN KEY (tenant_id, procedure_id) REFERENCES procedures
);
CREATE INDEX choices_by_chosen_at ON choices (tenant_id, chosen_at);

CREATE TABLE outcomes (
    tenant_id uuid NOT NULL,
    outcome_id text NOT NULL CHECK (length(outcome_id) BETWEEN 1 AND 200),
    procedure_id uuid NOT NULL,
    choice_id uuid,
    score numeric NOT NULL CHECK (score BETWEEN 0 AND 1),
    rewarded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, outcome_id),
    FOREIGN KEY (tenant_id, procedure_id) REFERENCES procedures
);
CREATE INDEX outcomes_by_procedure ON outcomes (tenant_id, procedure_id, rewarded_at, outcome_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON state_owners, state, procedures, choices, outcomes
    TO recordari_app, recordari_retention;
GRANT SELECT ON state_owners, state, procedures, choices, outcomes TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    -- What a user's credential wrote first is shown to that user only; a job or an administrator has no user.
    FOREACH table_name IN ARRAY ARRAY['state_owners', 'state'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant_and_user ON %I TO recordari_app, recordari_readonly
                 USING (tenant_id = current_tenant()
                     AND (user_id IS NULL OR current_app_user() IS NULL OR user_id = current_app_user()))
                 WITH CHECK (tenant_id = current_tenant()
                     AND (user_id IS NULL OR current_app_user() IS NULL OR user_id = current_app_user()))', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_retention
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
    FOREACH table_name IN ARRAY ARRAY['procedures', 'choices', 'outcomes'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;
