-- Tenants of one organisation share items: a shared item is copied into the receiver's own rows, so that row-level
-- security holds there as everywhere.

-- The organisation a tenant belongs to; an operator says so.
CREATE TABLE memberships (
    tenant_id uuid NOT NULL REFERENCES tenants,
    organisation text NOT NULL CHECK (length(organisation) BETWEEN 1 AND 200),
    joined_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id)
);

-- Which of its items a tenant gives to which other. It has no foreign key to the item: when the item goes, the row
-- still tells where its copies are.
CREATE TABLE shares (
    tenant_id uuid NOT NULL REFERENCES tenants,
    item_id uuid NOT NULL,
    to_tenant_id uuid NOT NULL,
    to_name text NOT NULL,
    shared_by text NOT NULL,
    shared_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, item_id, to_tenant_id)
);
CREATE INDEX shares_by_receiver ON shares (tenant_id, to_tenant_id, item_id);

-- The tenants whose shared items a tenant receives; nothing arrives before its administrator accepts.
CREATE TABLE share_links (
    tenant_id uuid NOT NULL REFERENCES tenants,
    from_tenant_id uuid NOT NULL,
    from_name text NOT NULL,
    status text NOT NULL DEFAULT 'offered' CHECK (status IN ('offered', 'accepted', 'declined')),
    offered_at timestamptz NOT NULL,
    decided_at timestamptz,
    PRIMARY KEY (tenant_id, from_tenant_id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON memberships, shares, share_links TO recordari_app, recordari_retention;
GRANT SELECT ON memberships, shares, share_links TO recordari_readonly;

-- Like the directory of tenants: only an operator reads it across tenants.
CREATE POLICY directory ON memberships FOR SELECT TO recordari_owner USING (true);

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['memberships', 'shares', 'share_links'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;

-- A copy is changed by its owner alone, by removing it and writing it anew. Items derived from it may be changed.
CREATE FUNCTION keep_shared() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a shared item is read-only'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'items_shared_are_read_only', TABLE = 'items';
END $$;
CREATE TRIGGER items_shared_are_read_only
    BEFORE UPDATE OF content, content_hash, kind, scope, tier, user_id, agent_id, session_id, source_ref, speaker, trust,
        event_time, valid_at, invalid_at, superseded_by, subject, predicate, object, confidence, category, metadata,
        pinned_at, archived_at, deleted_at, anonymized_at, shared_from, shared_item_id
    ON items FOR EACH ROW WHEN (OLD.shared_from IS NOT NULL) EXECUTE FUNCTION keep_shared();

-- When a shared item ends or changes, its copies follow: the entry in the outbox commits with the change.
CREATE FUNCTION follow_shared() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM shares s WHERE s.tenant_id = OLD.tenant_id AND s.item_id = OLD.item_id) THEN
        INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) VALUES ('share', OLD.tenant_id, OLD.item_id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER items_shared_changed
    AFTER UPDATE OF content, invalid_at, superseded_by, archived_at, deleted_at, anonymized_at ON items FOR EACH ROW
    WHEN (OLD.kind IN ('fact', 'procedure', 'document_chunk') AND OLD.shared_from IS NULL) EXECUTE FUNCTION follow_shared();
CREATE TRIGGER items_shared_gone AFTER DELETE ON items FOR EACH ROW
    WHEN (OLD.kind IN ('fact', 'procedure', 'document_chunk') AND OLD.shared_from IS NULL) EXECUTE FUNCTION follow_shared();
