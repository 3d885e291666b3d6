-- Workflows with their posteriors, and proposals that wait for a person's decision.

-- A workflow is one way to do a task, in versions. A version ends when another takes its place (superseded_by) or when it
-- is retired.
CREATE TABLE workflows (
    tenant_id uuid NOT NULL REFERENCES tenants,
    workflow_id uuid NOT NULL,
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
    PRIMARY KEY (tenant_id, workflow_id),
    UNIQUE (tenant_id, agent_type, task_type, name, version),
    FOREIGN KEY (tenant_id, superseded_by) REFERENCES workflows DEFERRABLE INITIALLY DEFERRED,
    CHECK (superseded_by IS NULL OR invalid_at IS NOT NULL)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX workflows_active ON workflows (tenant_id, agent_type, task_type, name) WHERE invalid_at IS NULL;

CREATE TABLE choices (
    tenant_id uuid NOT NULL,
    choice_id uuid NOT NULL,
    workflow_id uuid NOT NULL,
    agent_id text,
    session_id text,
    run_id text,
    sample double precision NOT NULL,
    candidates integer NOT NULL,
    chosen_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, choice_id),
    FOREIGN KEY (tenant_id, workflow_id) REFERENCES workflows
);
CREATE INDEX choices_by_chosen_at ON choices (tenant_id, chosen_at);

CREATE TABLE outcomes (
    tenant_id uuid NOT NULL,
    outcome_id text NOT NULL CHECK (length(outcome_id) BETWEEN 1 AND 200),
    workflow_id uuid NOT NULL,
    choice_id uuid,
    score numeric NOT NULL CHECK (score BETWEEN 0 AND 1),
    rewarded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, outcome_id),
    FOREIGN KEY (tenant_id, workflow_id) REFERENCES workflows
);
CREATE INDEX outcomes_by_workflow ON outcomes (tenant_id, workflow_id, rewarded_at, outcome_id);

-- A change that consolidation would make: nothing happens to its inputs before a person or a policy accepts it.
CREATE TABLE proposals (
    tenant_id uuid NOT NULL REFERENCES tenants,
    proposal_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('merge', 'retire', 'promote')),
    status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'accepted', 'rejected', 'void', 'undone')),
    rule text NOT NULL,                    -- why it is proposed, as the name of a rule
    key bytea NOT NULL,                    -- of its kind and inputs: a rejected or undone proposal is not made again
    successor_id uuid,                     -- which item stays where others end by it
    inputs integer NOT NULL CHECK (inputs > 0),
    links_made uuid[] NOT NULL DEFAULT '{}',  -- evidence that accepting it gave to the successor
    proposed_at timestamptz NOT NULL,
    decided_at timestamptz,
    decided_by text,
    reason text,
    PRIMARY KEY (tenant_id, proposal_id)
);
CREATE UNIQUE INDEX proposals_by_key ON proposals (tenant_id, key) WHERE status IN ('open', 'rejected', 'undone');
CREATE INDEX proposals_by_status ON proposals (tenant_id, status, proposal_id);

-- Each input as it was when it was proposed; when it differs now, the proposal is void.
CREATE TABLE proposal_inputs (
    tenant_id uuid NOT NULL,
    proposal_id uuid NOT NULL,
    item_id uuid NOT NULL,
    tier text NOT NULL,
    sources bigint NOT NULL,
    confidence real,
    PRIMARY KEY (tenant_id, proposal_id, item_id),
    FOREIGN KEY (tenant_id, proposal_id) REFERENCES proposals ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
);
CREATE INDEX proposal_inputs_by_item ON proposal_inputs (tenant_id, item_id);

-- Up to which item a tenant's memory was compared with itself.
CREATE TABLE reviews (
    tenant_id uuid NOT NULL REFERENCES tenants,
    examined_to uuid NOT NULL,
    reviewed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON workflows, choices, outcomes, proposals, proposal_inputs, reviews
    TO recordari_app, recordari_retention;
GRANT SELECT ON workflows, choices, outcomes, proposals, proposal_inputs, reviews TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['workflows', 'choices', 'outcomes', 'proposals', 'proposal_inputs', 'reviews'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;
