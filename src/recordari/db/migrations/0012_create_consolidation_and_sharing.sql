-- What outlives a session, what waits for a person's word, and what tenants of one organisation share.

ALTER TABLE sessions ADD COLUMN consolidated_at timestamptz;  -- what is worth keeping was taken from it
CREATE INDEX sessions_to_consolidate ON sessions (tenant_id, closed_at)
    WHERE status = 'closed' AND consolidated_at IS NULL;

-- A change that consolidation would make: nothing happens to its inputs before somebody, or a policy, accepts it.
CREATE TABLE proposals (
    tenant_id uuid NOT NULL REFERENCES tenants,
    proposal_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('merge', 'retire', 'promote')),
    status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'accepted', 'rejected', 'void', 'undone')),
    rule text NOT NULL,                    -- why it is proposed, as the name of a rule
    key bytea NOT NULL,                    -- of its kind and inputs: what was rejected or undone is not proposed again
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

-- How each input stood when it was proposed; where it stands otherwise, the proposal is void.
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
CREATE TABLE dreams (
    tenant_id uuid NOT NULL REFERENCES tenants,
    examined_to uuid NOT NULL,
    dreamt_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id)
);

-- The organisation a tenant belongs to; an operator says so.
CREATE TABLE memberships (
    tenant_id uuid NOT NULL REFERENCES tenants,
    organisation text NOT NULL CHECK (length(organisation) BETWEEN 1 AND 200),
    joined_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id)
);

-- Which of its items a tenant gives to which other. It has no foreign key to the item: when the item goes, the row is
-- what tells where its copies are.
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

-- From whom a tenant takes what is shared with it; nothing arrives before its administrator accepts.
CREATE TABLE share_links (
    tenant_id uuid NOT NULL REFERENCES tenants,
    from_tenant_id uuid NOT NULL,
    from_name text NOT NULL,
    status text NOT NULL DEFAULT 'offered' CHECK (status IN ('offered', 'accepted', 'declined')),
    offered_at timestamptz NOT NULL,
    decided_at timestamptz,
    PRIMARY KEY (tenant_id, from_tenant_id)
);

-- What is shared stands in the receiver's own rows, so that row-level security binds there as it does everywhere.
ALTER TABLE items
    ADD COLUMN shared_from text,           -- the tenant it comes from
    ADD COLUMN shared_item_id uuid,        -- the item it is a copy of, there
    ADD CONSTRAINT items_shared_whole CHECK ((shared_from IS NULL) = (shared_item_id IS NULL));
CREATE UNIQUE INDEX items_shared ON items (tenant_id, shared_from, shared_item_id) WHERE shared_from IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON proposals, proposal_inputs, dreams, memberships, shares, share_links
    TO recordari_app, recordari_retention;
GRANT SELECT ON proposals, proposal_inputs, dreams, memberships, shares, share_links TO recordari_readonly;

-- Like the directory of tenants: read across tenants by an operator alone.
CREATE POLICY directory ON memberships FOR SELECT TO recordari_owner USING (true);

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['proposals', 'proposal_inputs', 'dreams', 'memberships', 'shares', 'share_links'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;

-- A copy is changed by its owner alone, by being taken away and written anew. What is derived from it may be.
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

-- Whatever ends or changes a shared item, the copies follow: the entry commits with the change.
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
