-- What facts rest on, how far the background has come with an item, and what people said about it.

ALTER TABLE items
    ADD COLUMN extracted_at timestamptz,  -- facts were taken from it; never again, so that a forgotten one stays away
    ADD COLUMN judged_at timestamptz,     -- it was compared with its neighbours, whatever came of it
    ADD COLUMN pinned_at timestamptz;     -- only a person may end it

CREATE INDEX items_by_claim ON items (tenant_id, subject, predicate) WHERE subject IS NOT NULL AND predicate IS NOT NULL;
CREATE INDEX items_by_successor ON items (tenant_id, superseded_by) WHERE superseded_by IS NOT NULL;

-- Which items a derived one was taken from: what is removed takes with it what rests on it alone.
CREATE TABLE evidence (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    source_item_id uuid NOT NULL,
    event_time timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, item_id, source_item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, source_item_id) REFERENCES items ON DELETE CASCADE,
    CHECK (item_id <> source_item_id)
);
CREATE INDEX evidence_by_source ON evidence (tenant_id, source_item_id);

-- One voice per person and item; a second one takes the place of the first.
CREATE TABLE feedback (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    given_by text NOT NULL,
    opinion text NOT NULL CHECK (opinion IN ('useful', 'wrong')),
    given_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, item_id, given_by),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
);

GRANT SELECT, INSERT, UPDATE, DELETE ON evidence, feedback TO recordari_app, recordari_retention;
GRANT SELECT ON evidence, feedback TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['evidence', 'feedback'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;
