-- Canonical texts that memory must not copy (F7), apart from items so that only they bear the trigram index.

CREATE TABLE protected_sources (
    tenant_id uuid NOT NULL REFERENCES tenants,
    source_id uuid NOT NULL,
    protected_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, source_id)
);

CREATE TABLE protected_texts (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    source_id uuid NOT NULL,
    content text NOT NULL,
    -- Tenant and source as one value that only the trigram index begins with: the planner has no other way in.
    place text GENERATED ALWAYS AS (tenant_id::text || ':' || source_id::text) STORED,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, source_id) REFERENCES protected_sources ON DELETE CASCADE
);
CREATE INDEX protected_texts_by_trigram ON protected_texts USING gin (place, content gin_trgm_ops);

GRANT SELECT, INSERT, UPDATE, DELETE ON protected_sources, protected_texts TO recordari_app, recordari_retention;
GRANT SELECT ON protected_sources TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['protected_sources', 'protected_texts'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;

-- Leak guard: a fact must not be a copy of a protected text. It reads the texts as the owner, because under a
-- policy the trigram operator, which is not leakproof, could not use its index.
CREATE POLICY guard ON protected_texts FOR SELECT TO recordari_owner USING (true);
CREATE FUNCTION shadows_protected(sources uuid[], said text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = recordari, public, pg_temp
    SET pg_trgm.similarity_threshold = 0.85 SET enable_seqscan = off AS $$
BEGIN
    -- 0.85: seed 003 D4, a contract and not a setting.
    RETURN EXISTS (
        SELECT FROM protected_texts p
        WHERE p.place = ANY(ARRAY(SELECT current_tenant()::text || ':' || s FROM unnest(sources) AS s))
            AND p.content % said AND similarity(p.content, said) > 0.85::real);
END $$;
REVOKE ALL ON FUNCTION shadows_protected(uuid[], text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shadows_protected(uuid[], text) TO recordari_app, recordari_retention;

CREATE FUNCTION guard_facts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sources uuid[];
BEGIN
    -- A fact that names no source is compared with every protected one.
    SELECT array_agg(source_id) INTO sources FROM protected_sources p
    WHERE p.tenant_id = NEW.tenant_id AND (NEW.source_id IS NULL OR p.source_id = NEW.source_id);
    IF sources IS NOT NULL AND shadows_protected(sources, NEW.content) THEN
        RAISE EXCEPTION 'the text copies a protected document'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'items_leak_guard', TABLE = 'items';
    END IF;
    RETURN NEW;
END $$;
-- 100 characters: seed 003 D4, a contract and not a setting.
CREATE TRIGGER items_leak_guard BEFORE INSERT OR UPDATE OF content ON items FOR EACH ROW
    WHEN (NEW.kind = 'fact' AND length(NEW.content) >= 100) EXECUTE FUNCTION guard_facts();

CREATE FUNCTION keep_protected_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM protected_texts p WHERE p.tenant_id = NEW.tenant_id AND p.item_id = NEW.item_id;
    IF NEW.live AND EXISTS (
        SELECT FROM protected_sources s WHERE s.tenant_id = NEW.tenant_id AND s.source_id = NEW.source_id)
    THEN
        INSERT INTO protected_texts (tenant_id, item_id, source_id, content)
        VALUES (NEW.tenant_id, NEW.item_id, NEW.source_id, NEW.content);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER items_protected_text
    AFTER INSERT OR UPDATE OF content, source_id, deleted_at, invalid_at, archived_at, anonymized_at, superseded_by
    ON items FOR EACH ROW WHEN (NEW.kind = 'document_chunk' AND NEW.source_id IS NOT NULL)
    EXECUTE FUNCTION keep_protected_text();
