-- Sources that can be looked up, their documents and chunks.

CREATE TABLE sources (
    tenant_id uuid NOT NULL REFERENCES tenants,
    source_id uuid NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    kind text NOT NULL CHECK (kind IN ('documents', 'database', 'api', 'mcp')),
    description text NOT NULL DEFAULT '',
    tool text,                             -- that reaches it, where this does not follow from its kind
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
    sha256 bytea NOT NULL,                 -- of the original, its media type and metadata
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

-- The place of each chunk of the current revision; its text is the item's.
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

ALTER TABLE payloads ADD FOREIGN KEY (tenant_id, document_id) REFERENCES documents ON DELETE CASCADE;

GRANT SELECT, INSERT, UPDATE, DELETE ON sources, documents, document_chunks TO recordari_app, recordari_retention;
GRANT SELECT ON sources, documents, document_chunks TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['sources', 'documents', 'document_chunks'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;

-- When a chunk of a document is forgotten, its original is forgotten too.
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
