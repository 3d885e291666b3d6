-- Items, their payloads and vectors, and the entities they mention.

CREATE TABLE items (
    tenant_id uuid NOT NULL REFERENCES tenants,
    item_id uuid NOT NULL,
    kind text NOT NULL,
    scope text NOT NULL CHECK (scope IN ('session', 'user', 'agent', 'tenant')),
    tier text NOT NULL CHECK (tier IN ('run', 'session', 'recent', 'persistent')),
    user_id text,
    agent_id text,
    session_id text,
    run_id text,
    source_ref text NOT NULL,
    source_id uuid,
    thread text,               -- what it stands in line with: its session or its document
    position integer,          -- its place in that line; neighbours are one place away
    content text NOT NULL,
    content_hash bytea NOT NULL,
    speaker text,
    trust text NOT NULL CHECK (trust IN ('user', 'agent', 'tool', 'document', 'external')),
    event_time timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    valid_at timestamptz NOT NULL,
    invalid_at timestamptz,
    superseded_by uuid,
    subject text,
    predicate text,
    object text,
    confidence real CHECK (confidence BETWEEN 0 AND 1),
    category text,
    payload_key text,
    metadata jsonb NOT NULL DEFAULT '{}',
    archived_at timestamptz,
    deleted_at timestamptz,
    anonymized_at timestamptz,
    live boolean NOT NULL GENERATED ALWAYS AS (
        invalid_at IS NULL AND superseded_by IS NULL AND archived_at IS NULL AND deleted_at IS NULL
        AND anonymized_at IS NULL) STORED,
    -- Derived from the content, rebuilt by `recordari reindex`:
    tsv tsvector NOT NULL,
    terms bytea NOT NULL,      -- hashes of its terms in order, for exact scoring of candidates
    tokens bytea NOT NULL,     -- ids of its tokens in the static table, for late interaction
    traits smallint NOT NULL,
    PRIMARY KEY (tenant_id, item_id),
    UNIQUE (tenant_id, kind, source_ref)
) WITH (fillfactor = 90, toast_tuple_target = 2048);

CREATE INDEX items_text ON items USING gin (tenant_id, tsv) WITH (fastupdate = off);
CREATE INDEX items_by_event_time ON items (tenant_id, event_time);
CREATE INDEX items_by_thread ON items (tenant_id, thread, position) WHERE thread IS NOT NULL;
CREATE INDEX items_by_owner ON items (tenant_id, scope, user_id);

CREATE TABLE vectors (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    model_id text NOT NULL,
    live boolean NOT NULL,
    kind text NOT NULL,
    scope text NOT NULL,
    user_id text,
    agent_id text,
    session_id text,
    event_time timestamptz NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (tenant_id, model_id, item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
);
ALTER TABLE vectors ALTER COLUMN embedding SET STORAGE PLAIN;

CREATE TABLE payloads (
    tenant_id uuid NOT NULL,
    payload_key text NOT NULL,
    item_id uuid NOT NULL,
    media_type text NOT NULL DEFAULT 'text/plain; charset=utf-8',
    bytes bigint NOT NULL,
    sha256 bytea NOT NULL,
    body bytea,
    object_key text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, payload_key),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE,
    CHECK ((body IS NULL) <> (object_key IS NULL))
);
CREATE INDEX payloads_by_item ON payloads (tenant_id, item_id);

CREATE TABLE entities (
    tenant_id uuid NOT NULL REFERENCES tenants,
    entity_id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    key text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, entity_id),
    UNIQUE (tenant_id, key)
);

CREATE TABLE mentions (
    tenant_id uuid NOT NULL,
    entity_id uuid NOT NULL,
    item_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, entity_id, item_id),
    FOREIGN KEY (tenant_id, entity_id) REFERENCES entities ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
);
CREATE INDEX mentions_by_item ON mentions (tenant_id, item_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON items, vectors, payloads, entities, mentions TO recordari_app, recordari_retention;
GRANT SELECT ON items, vectors, payloads, entities, mentions TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    -- A user's own items are shown to that user only; a job or an administrator has no user and sees the tenant's.
    FOREACH table_name IN ARRAY ARRAY['items', 'vectors'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant_and_user ON %I TO recordari_app, recordari_readonly
                 USING (tenant_id = current_tenant()
                     AND (scope <> ''user'' OR current_app_user() IS NULL OR user_id = current_app_user()))
                 WITH CHECK (tenant_id = current_tenant()
                     AND (scope <> ''user'' OR current_app_user() IS NULL OR user_id = current_app_user()))', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_retention
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
    FOREACH table_name IN ARRAY ARRAY['payloads', 'entities', 'mentions'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;
