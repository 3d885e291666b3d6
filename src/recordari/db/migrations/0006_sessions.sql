-- Sessions with their window and notes, runs with their turns and tool calls, and the keyed state of both.

CREATE TABLE sessions (
    tenant_id uuid NOT NULL REFERENCES tenants,
    session_id text NOT NULL CHECK (length(session_id) BETWEEN 1 AND 200),
    session_ref uuid NOT NULL,             -- made by us, in the order of opening: pages and the outbox go by it
    root_id text NOT NULL,                 -- the first session of its line; a line has one open session at most
    continues text,                        -- the session before it in the line
    user_id text,
    agent_id text,
    status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed')),
    close_reason text CHECK (close_reason IN ('asked', 'idle')),
    idle_seconds integer NOT NULL CHECK (idle_seconds > 0),
    notes_seconds integer NOT NULL CHECK (notes_seconds > 0),
    window_share real NOT NULL CHECK (window_share > 0 AND window_share <= 1),
    metadata jsonb NOT NULL DEFAULT '{}',
    opened_at timestamptz NOT NULL,
    active_at timestamptz NOT NULL,
    closed_at timestamptz,
    consolidated_at timestamptz,           -- lasting memories were taken from it
    messages integer NOT NULL DEFAULT 0,
    window_from integer NOT NULL DEFAULT 1,      -- place in the thread at which the window begins
    window_tokens integer NOT NULL DEFAULT 0,
    epoch integer NOT NULL DEFAULT 0,            -- how often the context was compressed
    epoch_from integer,                          -- where the tail of the present epoch begins
    epoch_to integer,                            -- the last message when it began
    prompt_tokens integer,                       -- as the last turn reported it
    summary text NOT NULL DEFAULT '',
    summary_id uuid,                             -- the item that holds the same text
    summarised_to integer NOT NULL DEFAULT 0,
    folded_to integer NOT NULL DEFAULT 0,        -- up to here messages left the window and are summarised for good
    folds jsonb NOT NULL DEFAULT '[]',           -- those summaries, each with the places it covers
    PRIMARY KEY (tenant_id, session_id)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX sessions_by_ref ON sessions (tenant_id, session_ref);
CREATE UNIQUE INDEX sessions_open_in_line ON sessions (tenant_id, root_id) WHERE status = 'open';
CREATE INDEX sessions_by_line ON sessions (tenant_id, root_id, session_ref);
CREATE INDEX sessions_by_agent ON sessions (tenant_id, agent_id, session_ref);
CREATE INDEX sessions_by_opening ON sessions (tenant_id, opened_at);
CREATE INDEX sessions_to_consolidate ON sessions (tenant_id, closed_at)
    WHERE status = 'closed' AND consolidated_at IS NULL;

CREATE TABLE notes (
    tenant_id uuid NOT NULL,
    session_id text NOT NULL,
    note_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('decision', 'action_item', 'tool_result', 'note')),
    content text NOT NULL,
    importance real NOT NULL CHECK (importance BETWEEN 0 AND 1),
    item_id uuid,                          -- the item it was noted from
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, session_id, note_id),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions ON DELETE CASCADE
);

CREATE TABLE runs (
    tenant_id uuid NOT NULL REFERENCES tenants,
    run_id text NOT NULL CHECK (length(run_id) BETWEEN 1 AND 200),
    run_ref uuid NOT NULL,
    session_id text NOT NULL,
    user_id text,
    agent_id text,
    status text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'failed')),
    input jsonb NOT NULL DEFAULT '{}',     -- with the ids of the episodes it was given
    output jsonb,
    error text,
    tokens_in bigint NOT NULL DEFAULT 0,
    tokens_out bigint NOT NULL DEFAULT 0,
    cost numeric(18, 9) NOT NULL DEFAULT 0,
    currency text NOT NULL DEFAULT 'USD' CHECK (currency ~ '^[A-Z]{3}$'),
    turns integer NOT NULL DEFAULT 0,
    calls integer NOT NULL DEFAULT 0,
    metadata jsonb NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions ON DELETE CASCADE
);
CREATE UNIQUE INDEX runs_by_ref ON runs (tenant_id, run_ref);
CREATE INDEX runs_by_agent ON runs (tenant_id, agent_id, run_ref);
CREATE INDEX runs_by_session ON runs (tenant_id, session_id, run_ref);
CREATE INDEX runs_by_start ON runs (tenant_id, started_at);

-- The log: one row for every turn of a run.
CREATE TABLE turns (
    tenant_id uuid NOT NULL,
    run_id text NOT NULL,
    number integer NOT NULL,
    status text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'failed')),
    episodes uuid[] NOT NULL DEFAULT '{}',  -- given to it at its start
    prompt_tokens integer,
    tokens_in bigint NOT NULL DEFAULT 0,
    tokens_out bigint NOT NULL DEFAULT 0,
    cost numeric(18, 9) NOT NULL DEFAULT 0,
    error text,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    PRIMARY KEY (tenant_id, run_id, number),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);

-- The latest turn of a session: one row, made at the first turn and renewed by every other.
CREATE TABLE turn_states (
    tenant_id uuid NOT NULL,
    session_id text NOT NULL,
    run_id text NOT NULL,
    number integer NOT NULL,
    status text NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
    data jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, session_id),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions ON DELETE CASCADE
) WITH (fillfactor = 70);

-- Arguments are kept as the very text that was sent: jsonb would reorder keys, rewrite numbers and refuse \u0000.
CREATE TABLE tool_calls (
    tenant_id uuid NOT NULL,
    run_id text NOT NULL,
    number integer NOT NULL,
    call_id text,                          -- as the model named it; models do use one twice in a run
    turn integer NOT NULL,
    name text NOT NULL,
    arguments text NOT NULL,
    result_id uuid,                        -- the item that holds the result, where it says anything
    result_blank text,                     -- a result of nothing but white space, which no item can hold
    result_key text,                       -- the key of the whole body, where the item is only a preview
    result_bytes bigint,
    result_sha256 bytea,
    error text,
    latency_ms double precision,
    started_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, number),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);

-- One row for each owner of state. Writers lock it, so that a budget holds for writes at the same moment; its version
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
    value json NOT NULL,       -- not jsonb: it is returned exactly as it was given
    bytes integer NOT NULL,
    version bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz,    -- NULL: ends with its owner
    PRIMARY KEY (tenant_id, owner_kind, owner_id, key),
    FOREIGN KEY (tenant_id, owner_kind, owner_id) REFERENCES state_owners ON DELETE CASCADE
);
CREATE INDEX state_by_expires_at ON state (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON sessions, notes, runs, turns, turn_states, tool_calls, state_owners, state
    TO recordari_app, recordari_retention;
GRANT SELECT ON sessions, notes, runs, turns, turn_states, tool_calls, state_owners, state TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    -- A user's own sessions, runs and state are shown to that user only; a job or an administrator has no user.
    FOREACH table_name IN ARRAY ARRAY['sessions', 'runs', 'state_owners', 'state'] LOOP
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
    FOREACH table_name IN ARRAY ARRAY['notes', 'turns', 'turn_states', 'tool_calls'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;
