-- Entries: JSON documents by namespace and key, of a user, an agent or the whole tenant.

CREATE TABLE entries (
    tenant_id uuid NOT NULL REFERENCES tenants,
    entry_id uuid NOT NULL,
    scope text NOT NULL CHECK (scope IN ('user', 'agent', 'tenant')),
    owner_id text NOT NULL,                -- the user or agent; empty: the tenant
    path text COLLATE "C" NOT NULL,        -- the namespace as one text, each label closed by U+001F
    namespace text[] NOT NULL,
    key text NOT NULL,
    value jsonb NOT NULL,
    version bigint NOT NULL,
    item_id uuid,                          -- found by recall; NULL: it is not indexed
    ttl_seconds integer,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (tenant_id, entry_id),
    UNIQUE (tenant_id, scope, owner_id, path, key),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE SET NULL (item_id)
);
CREATE INDEX entries_by_item ON entries (tenant_id, item_id) WHERE item_id IS NOT NULL;
CREATE INDEX entries_expiring ON entries (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON entries TO recordari_app, recordari_retention;
GRANT SELECT ON entries TO recordari_readonly;
ALTER TABLE entries ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_and_user ON entries TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant()
        AND (scope <> 'user' OR current_app_user() IS NULL OR owner_id = current_app_user()))
    WITH CHECK (tenant_id = current_tenant()
        AND (scope <> 'user' OR current_app_user() IS NULL OR owner_id = current_app_user()));
CREATE POLICY tenant ON entries TO recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

-- When an item is redacted (by a person, retention or the erasing of a user), its entry goes too.
CREATE FUNCTION drop_forgotten_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM entries e WHERE e.tenant_id = NEW.tenant_id AND e.item_id = NEW.item_id;
    RETURN NULL;
END $$;
CREATE TRIGGER items_drop_forgotten_entry AFTER UPDATE OF anonymized_at ON items FOR EACH ROW
    WHEN (NEW.kind = 'entry' AND OLD.anonymized_at IS NULL AND NEW.anonymized_at IS NOT NULL)
    EXECUTE FUNCTION drop_forgotten_entry();
