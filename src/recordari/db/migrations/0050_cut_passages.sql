-- Long texts are cut into passages: each is found by its own words and its own meaning, wherever the whole text is stored.
-- A passage has the kind, the time and the owner of its item, so that a search reads only those that may answer.
CREATE TABLE passages (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    ordinal integer NOT NULL,
    start bigint NOT NULL,     -- bytes of the whole text before it
    kind text NOT NULL,
    event_time timestamptz NOT NULL,
    owner text NOT NULL,
    content text NOT NULL,
    tsv tsvector NOT NULL,
    terms bytea NOT NULL,
    tokens bytea NOT NULL,
    traits smallint NOT NULL,
    model_id text,             -- NULL: not embedded
    embedding halfvec,
    PRIMARY KEY (tenant_id, item_id, ordinal),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE,
    CHECK ((model_id IS NULL) = (embedding IS NULL))
);
ALTER TABLE passages ALTER COLUMN embedding SET STORAGE PLAIN;
CREATE INDEX passages_text ON passages USING gin (tenant_id, tsv) WITH (fastupdate = on, gin_pending_list_limit = 64);
CREATE INDEX passages_of_owner ON passages (tenant_id, model_id, owner COLLATE "C");

ALTER TABLE passages ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
-- As of vectors: by the owner alone, and the user is named once for all rows.
CREATE POLICY tenant_and_user ON passages TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant() AND (owner = (SELECT 'user:' || current_app_user())
        OR starts_with(owner, (SELECT 'session:user:' || current_app_user() || chr(31)))
        OR (left(owner, 5) <> 'user:' AND left(owner, 13) <> 'session:user:')))
    WITH CHECK (tenant_id = current_tenant() AND (owner = (SELECT 'user:' || current_app_user())
        OR starts_with(owner, (SELECT 'session:user:' || current_app_user() || chr(31)))
        OR (left(owner, 5) <> 'user:' AND left(owner, 13) <> 'session:user:')));
CREATE POLICY tenant ON passages TO recordari_tenant, recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON passages TO recordari_app, recordari_retention;
GRANT SELECT ON passages TO recordari_readonly;

SELECT sample_no_text();
