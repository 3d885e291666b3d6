-- The evidence of facts, and the opinions of people about them.

-- The items that a derived item was taken from. A derived item goes when its last source goes.
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

-- One opinion per person and item; a second one replaces the first.
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

-- A writer that derives something locks the source until the commit: either forgetting the source finds the derived
-- item, or deriving finds that the source is forgotten and starts again without it.
CREATE FUNCTION keep_source() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM items i
    WHERE i.tenant_id = NEW.tenant_id AND i.item_id = NEW.source_item_id AND i.anonymized_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the source was forgotten' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER evidence_has_its_source BEFORE INSERT ON evidence FOR EACH ROW EXECUTE FUNCTION keep_source();
