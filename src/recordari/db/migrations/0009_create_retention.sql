-- What ends a memory: holds, tombstones of what was forgotten, erasures of users, access counts, protected texts, usage.

-- Hashes of what was forgotten are made with it, so that nobody can guess them back from a list of likely texts.
ALTER TABLE tenants ADD COLUMN salt bytea NOT NULL
    DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');

CREATE INDEX items_recent ON items (tenant_id, created_at) WHERE tier = 'recent' AND live;
CREATE INDEX items_retired ON items (tenant_id, item_id) WHERE NOT live AND anonymized_at IS NULL;
CREATE INDEX items_transient ON items (tenant_id, item_id) WHERE tier IN ('run', 'session') AND anonymized_at IS NULL;

-- An action rests on the item: the foreign key alone forbids that the row is deleted.
CREATE TABLE holds (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    action_id text NOT NULL CHECK (length(action_id) BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, item_id, action_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items
);

-- What was forgotten and must not come back; never what it said.
CREATE TABLE tombstones (
    tenant_id uuid NOT NULL REFERENCES tenants,
    hash bytea NOT NULL,
    subject text NOT NULL CHECK (subject IN ('item', 'user')),
    item_id uuid,
    is_final boolean NOT NULL,             -- else what happened after forgotten_at is something new
    forgotten_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, hash)
);

-- Bodies whose row is gone and whose object goes next; kept here so that a crash in between loses none.
CREATE TABLE discarded_objects (
    tenant_id uuid NOT NULL REFERENCES tenants,
    object_key text NOT NULL,
    discarded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, object_key)
);

CREATE FUNCTION discard_object() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO discarded_objects (tenant_id, object_key) VALUES (OLD.tenant_id, OLD.object_key)
    ON CONFLICT (tenant_id, object_key) DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER payloads_discard AFTER DELETE ON payloads FOR EACH ROW
    WHEN (OLD.object_key IS NOT NULL) EXECUTE FUNCTION discard_object();
CREATE TRIGGER payloads_discard_replaced AFTER UPDATE ON payloads FOR EACH ROW
    WHEN (OLD.object_key IS NOT NULL AND OLD.object_key IS DISTINCT FROM NEW.object_key) EXECUTE FUNCTION discard_object();

CREATE TABLE erasures (
    tenant_id uuid NOT NULL REFERENCES tenants,
    erasure_id uuid NOT NULL,
    user_hash bytea NOT NULL,
    user_id text,                          -- only while it runs
    requested_at timestamptz NOT NULL,
    start_xid xid8 NOT NULL,               -- writers that began before it may still commit
    items bigint NOT NULL DEFAULT 0,
    sessions bigint NOT NULL DEFAULT 0,
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, erasure_id),
    CHECK (finished_at IS NULL OR user_id IS NULL)
);
CREATE UNIQUE INDEX erasures_running ON erasures (tenant_id, user_hash) WHERE finished_at IS NULL;

-- How often and when last an item was recalled. Apart from items, so that counting rewrites no item.
CREATE TABLE access (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    times bigint NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
) WITH (fillfactor = 70);

CREATE TABLE usage (
    tenant_id uuid NOT NULL REFERENCES tenants,
    items bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    writes bigint NOT NULL DEFAULT 0,      -- of the day
    day date NOT NULL,
    measured_at timestamptz,
    PRIMARY KEY (tenant_id)
) WITH (fillfactor = 50);

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

GRANT SELECT, INSERT, UPDATE, DELETE
    ON holds, tombstones, discarded_objects, erasures, access, usage, protected_sources, protected_texts
    TO recordari_app, recordari_retention;
GRANT SELECT ON holds, tombstones, erasures, access, usage, protected_sources TO recordari_readonly;
GRANT UPDATE, DELETE ON users TO recordari_retention;
GRANT SELECT, UPDATE ON api_keys TO recordari_retention;
GRANT INSERT ON recordari_queue.outbox TO recordari_retention;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['holds', 'tombstones', 'discarded_objects', 'erasures', 'access', 'usage',
        'protected_sources', 'protected_texts'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;

-- What was forgotten stays away.

CREATE FUNCTION erasure_hash(salt bytea, VARIADIC parts text[]) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT sha256(salt || convert_to(array_to_string(parts, chr(31), ''), 'UTF8')) $$;

-- By what an item is known again: its reference, and what it says to whom (things that happen: also when).
CREATE FUNCTION item_hashes(salt bytea, item items) RETURNS bytea[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY[
        erasure_hash(salt, 'ref', item.kind, item.source_ref),
        erasure_hash(salt, 'content', item.kind,
            CASE WHEN item.kind = 'document_chunk' THEN '' ELSE item.scope || ':' || COALESCE(
                CASE item.scope WHEN 'user' THEN item.user_id WHEN 'agent' THEN item.agent_id
                    WHEN 'session' THEN item.session_id END, '') END,
            CASE WHEN item.kind IN ('fact', 'document_chunk') THEN '' ELSE extract(epoch FROM item.event_time)::text END,
            encode(item.content_hash, 'hex'))]
$$;

-- Whether a user was erased after that moment: nothing so old of that user is written any more.
CREATE FUNCTION is_erased_user(who text, moment timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM tenants n JOIN tombstones t ON t.tenant_id = n.tenant_id AND t.hash = erasure_hash(n.salt, 'user', who)
        WHERE n.tenant_id = current_tenant() AND moment <= t.forgotten_at)
$$;

CREATE FUNCTION keep_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    salt bytea;
BEGIN
    IF NEW.anonymized_at IS NOT NULL OR NOT EXISTS (SELECT FROM tombstones t WHERE t.tenant_id = NEW.tenant_id) THEN
        RETURN NEW;
    END IF;
    SELECT t.salt INTO salt FROM tenants t WHERE t.tenant_id = NEW.tenant_id;
    IF EXISTS (
        SELECT FROM tombstones t
        WHERE t.tenant_id = NEW.tenant_id AND (t.is_final OR NEW.event_time <= t.forgotten_at)
            AND t.hash = ANY(item_hashes(salt, NEW) || erasure_hash(salt, 'user', COALESCE(NEW.user_id, '')))
    ) THEN
        RETURN NULL;  -- the row is left out; whoever wrote it is told that it is not new
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER items_stay_forgotten BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION keep_forgotten();

-- Whoever derives something from an item holds on to it until the commit: either the forgetting finds what was
-- derived, or the deriving finds that its source is forgotten and starts again without it.
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

-- The audit is only appended to, with one exception: ids of an erased user become hashes. Nobody may do it in any
-- other way than by this function, and only under the role of retention.
GRANT SELECT, UPDATE ON audit TO recordari_owner;
CREATE POLICY pseudonymise ON audit TO recordari_owner
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY pseudonymise ON tenants FOR SELECT TO recordari_owner USING (tenant_id = current_tenant());
CREATE FUNCTION pseudonymise_audit(ids text[]) RETURNS bigint LANGUAGE sql SECURITY DEFINER
    SET search_path = recordari, pg_temp AS $$
    WITH names AS (
        SELECT id, 'erased:' || left(encode(erasure_hash(t.salt, 'user', id), 'hex'), 32) AS hash
        FROM unnest(ids) AS id, tenants t WHERE t.tenant_id = current_tenant()
    ), changed AS (
        UPDATE audit a SET
            subject_id = COALESCE((SELECT hash FROM names WHERE id = a.subject_id), a.subject_id),
            actor = COALESCE((SELECT split_part(a.actor, ':', 1) || ':' || hash FROM names
                WHERE a.actor = split_part(a.actor, ':', 1) || ':' || id), (SELECT hash FROM names WHERE id = a.actor), a.actor),
            reason = CASE WHEN a.reason = ANY(ids) THEN NULL ELSE a.reason END,
            details = (SELECT COALESCE(jsonb_object_agg(e.key, COALESCE(
                (SELECT to_jsonb(hash) FROM names WHERE to_jsonb(id) = e.value), e.value)), '{}') FROM jsonb_each(a.details) e)
        WHERE a.tenant_id = current_tenant() AND (
            a.subject_id = ANY(ids) OR a.actor = ANY(ids) OR a.reason = ANY(ids)
            OR substr(a.actor, strpos(a.actor, ':') + 1) = ANY(ids)
            OR EXISTS (SELECT FROM jsonb_each_text(a.details) e WHERE e.value = ANY(ids)))
        RETURNING 1
    )
    SELECT count(*) FROM changed
$$;
REVOKE ALL ON FUNCTION pseudonymise_audit(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pseudonymise_audit(text[]) TO recordari_retention;

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
