-- Who saw an item last, and where: in a recall or in a context, of which session. Each item has at most 16 rows, however often
-- it is recalled: who uses it falls into one of 16 slots, and the last one of a slot stays.
CREATE TABLE uses (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    slot smallint NOT NULL CHECK (slot BETWEEN 0 AND 15),
    owned_by text NOT NULL,
    agent_id text,
    session_id text,
    via text NOT NULL CHECK (via IN ('recall', 'context', 'search')),
    last_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, item_id, slot),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
) WITH (fillfactor = 70);
CREATE INDEX uses_by_owner ON uses (tenant_id, owned_by);

ALTER TABLE uses ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_and_user ON uses TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant() AND is_shown(owned_by))
    WITH CHECK (tenant_id = current_tenant() AND is_shown(owned_by));
CREATE POLICY tenant ON uses TO recordari_tenant, recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON uses TO recordari_app, recordari_retention;
GRANT SELECT ON uses TO recordari_readonly;

-- The score of a choice is looked up by the choice.
CREATE INDEX outcomes_by_choice ON outcomes (tenant_id, choice_id) WHERE choice_id IS NOT NULL;

SELECT sample_no_text();
