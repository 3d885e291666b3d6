-- What can be looked up: sources, their documents and chunks; and the standing profiles of users and agents.

CREATE TABLE sources (
    tenant_id uuid NOT NULL REFERENCES tenants,
    source_id uuid NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    kind text NOT NULL CHECK (kind IN ('documents', 'database', 'api', 'mcp')),
    description text NOT NULL DEFAULT '',
    tool text,                             -- what reaches it, where that does not follow from its kind
    folder text,                           -- on the operator's machine, for the job that reads it
    documents integer NOT NULL DEFAULT 0,
    chunks bigint NOT NULL DEFAULT 0,
    sync jsonb,                            -- how far its last synchronisation came
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, source_id),
    UNIQUE (tenant_id, name),
    CHECK (folder IS NULL OR kind = 'documents')
);

CREATE TABLE documents (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    source_id uuid NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 400),
    title text NOT NULL,
    media_type text NOT NULL,
    revision integer NOT NULL,
    sha256 bytea NOT NULL,                 -- of the original, and of what was said about it
    bytes bigint NOT NULL,
    characters bigint NOT NULL,
    chunks integer NOT NULL,
    pages integer,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, document_id),
    UNIQUE (tenant_id, source_id, name),
    FOREIGN KEY (tenant_id, source_id) REFERENCES sources
);

-- Where each chunk of the present revision stands; its text is the item's.
CREATE TABLE document_chunks (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    ordinal integer NOT NULL,
    item_id uuid NOT NULL,
    heading text[] NOT NULL,
    page integer,
    first integer NOT NULL,                -- characters of the document's text
    past integer NOT NULL,
    PRIMARY KEY (tenant_id, document_id, ordinal),
    UNIQUE (tenant_id, item_id),
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
);

-- A body stands behind an item or is the original of a document.
ALTER TABLE payloads ALTER COLUMN item_id DROP NOT NULL;
ALTER TABLE payloads ADD COLUMN document_id uuid;
ALTER TABLE payloads ADD FOREIGN KEY (tenant_id, document_id) REFERENCES documents ON DELETE CASCADE;
ALTER TABLE payloads ADD CHECK ((item_id IS NULL) <> (document_id IS NULL));
CREATE UNIQUE INDEX payloads_by_document ON payloads (tenant_id, document_id) WHERE document_id IS NOT NULL;
CREATE INDEX payloads_by_object ON payloads (tenant_id, object_key) WHERE object_key IS NOT NULL;

-- A body that goes with its item or document goes by the owner's hand, which writes down its object.
CREATE POLICY cascade ON discarded_objects TO recordari_owner
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

-- What is forgotten of a document is forgotten in its original too.
CREATE FUNCTION forget_chunk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM payloads p USING document_chunks c
    WHERE c.tenant_id = NEW.tenant_id AND c.item_id = NEW.item_id
        AND p.tenant_id = c.tenant_id AND p.document_id = c.document_id;
    DELETE FROM document_chunks c WHERE c.tenant_id = NEW.tenant_id AND c.item_id = NEW.item_id;
    RETURN NULL;
END $$;
CREATE TRIGGER items_forget_chunk AFTER UPDATE OF anonymized_at ON items FOR EACH ROW
    WHEN (NEW.kind = 'document_chunk' AND NEW.anonymized_at IS NOT NULL AND OLD.anonymized_at IS NULL)
    EXECUTE FUNCTION forget_chunk();

CREATE TABLE profiles (
    tenant_id uuid NOT NULL REFERENCES tenants,
    profile_id uuid NOT NULL,
    user_id text,
    agent_id text,
    content text NOT NULL,
    facts integer NOT NULL,
    writer text NOT NULL,
    made_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, profile_id),
    CHECK ((user_id IS NULL) <> (agent_id IS NULL))
);
CREATE UNIQUE INDEX profiles_of_user ON profiles (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE UNIQUE INDEX profiles_of_agent ON profiles (tenant_id, agent_id) WHERE agent_id IS NOT NULL;

-- Facts changed since the profile was made. Only ever appended to and struck off, so that writers never wait for it.
CREATE TABLE profile_changes (
    tenant_id uuid NOT NULL,
    change_id bigint GENERATED ALWAYS AS IDENTITY,
    profile_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, change_id),
    FOREIGN KEY (tenant_id, profile_id) REFERENCES profiles ON DELETE CASCADE
);
CREATE INDEX profile_changes_by_profile ON profile_changes (tenant_id, profile_id);

-- A fact that comes, changes or ends makes its owner's profile stale in the same transaction, whoever changes it.
CREATE FUNCTION outdate_profile() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fact items;
    stale uuid;
BEGIN
    IF TG_OP = 'INSERT' THEN fact := NEW; ELSE fact := OLD; END IF;
    SELECT p.profile_id INTO stale FROM profiles p
    WHERE p.tenant_id = fact.tenant_id AND (
        (fact.scope = 'user' AND p.user_id = fact.user_id) OR (fact.scope = 'agent' AND p.agent_id = fact.agent_id));
    IF stale IS NOT NULL THEN
        INSERT INTO profile_changes (tenant_id, profile_id) VALUES (fact.tenant_id, stale);
        INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) SELECT 'profile', fact.tenant_id, stale
        WHERE NOT EXISTS (
            SELECT FROM recordari_queue.outbox o
            WHERE o.tenant_id = fact.tenant_id AND o.topic = 'profile' AND o.ref = stale AND o.attempts = 0);
        IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND NEW.anonymized_at IS NOT NULL) THEN
            -- Forgotten: not even the stored copy may tell it any longer.
            UPDATE profiles p SET content = '', facts = 0 WHERE p.tenant_id = fact.tenant_id AND p.profile_id = stale;
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER items_outdate_profile_insert AFTER INSERT ON items FOR EACH ROW
    WHEN (NEW.kind = 'fact' AND NEW.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
CREATE TRIGGER items_outdate_profile_update
    AFTER UPDATE OF content, category, confidence, pinned_at, invalid_at, superseded_by, archived_at, deleted_at, anonymized_at
    ON items FOR EACH ROW
    WHEN (OLD.kind = 'fact' AND OLD.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
CREATE TRIGGER items_outdate_profile_delete AFTER DELETE ON items FOR EACH ROW
    WHEN (OLD.kind = 'fact' AND OLD.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
CREATE INDEX items_facts_of_user ON items (tenant_id, user_id) WHERE kind = 'fact' AND scope = 'user' AND live;
CREATE INDEX items_facts_of_agent ON items (tenant_id, agent_id) WHERE kind = 'fact' AND scope = 'agent' AND live;

GRANT SELECT, INSERT, UPDATE, DELETE ON sources, documents, document_chunks, profiles, profile_changes
    TO recordari_app, recordari_retention;
GRANT SELECT ON sources, documents, document_chunks, profiles, profile_changes TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['sources', 'documents', 'document_chunks', 'profile_changes'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;
-- A user's profile is shown to that user only; a job or an administrator has no user and sees the tenant's.
ALTER TABLE profiles ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_and_user ON profiles TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant()
        AND (user_id IS NULL OR current_app_user() IS NULL OR user_id = current_app_user()))
    WITH CHECK (tenant_id = current_tenant()
        AND (user_id IS NULL OR current_app_user() IS NULL OR user_id = current_app_user()));
CREATE POLICY tenant ON profiles TO recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
