-- Items, their payloads and vectors, the entities they mention, how often they are recalled, and counts of their changes.

CREATE TABLE items (
    tenant_id uuid NOT NULL REFERENCES tenants,
    item_id uuid NOT NULL,
    kind text NOT NULL,
    scope text NOT NULL,
    tier text NOT NULL,
    user_id text,
    agent_id text,
    session_id text,
    run_id text,
    source_ref text NOT NULL,
    source_id uuid,
    thread text,               -- the line it belongs to: its session or its document
    position integer,          -- its place in that line; neighbours are one place away
    content text NOT NULL,
    content_hash bytea NOT NULL,
    speaker text,
    trust text NOT NULL,
    event_time timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    valid_at timestamptz NOT NULL,
    invalid_at timestamptz,
    superseded_by uuid,
    subject text,
    predicate text,
    object text,
    confidence real,
    category text,
    payload_key text,
    metadata jsonb NOT NULL DEFAULT '{}',
    masked jsonb,              -- how many personal data and secrets of each type were taken out before writing; NULL: none
    extracted_at timestamptz,  -- facts were taken from it; never again, so that a forgotten one stays away
    judged_at timestamptz,     -- it was compared with its neighbours, with or without a result
    pinned_at timestamptz,     -- only a person may end it
    shared_from text,          -- the tenant it comes from
    shared_item_id uuid,       -- the item it is a copy of, there
    archived_at timestamptz,
    deleted_at timestamptz,
    anonymized_at timestamptz,
    live boolean NOT NULL GENERATED ALWAYS AS (
        invalid_at IS NULL AND superseded_by IS NULL AND archived_at IS NULL AND deleted_at IS NULL
        AND anonymized_at IS NULL) STORED,
    -- Derived from the content, rebuilt by `recordari reindex`:
    tsv tsvector NOT NULL,
    terms bytea NOT NULL,      -- hashes of its terms in order, for exact scoring of candidates
    tokens bytea NOT NULL,     -- ids of its tokens in the static table, for late interaction
    traits smallint NOT NULL,
    PRIMARY KEY (tenant_id, item_id),
    UNIQUE (tenant_id, kind, source_ref),
    -- One check, because each one costs every write.
    CONSTRAINT items_known_words CHECK (
        scope IN ('session', 'user', 'agent', 'tenant') AND tier IN ('run', 'session', 'recent', 'persistent')
        AND trust IN ('user', 'agent', 'tool', 'document', 'external') AND confidence BETWEEN 0 AND 1),
    CONSTRAINT items_shared_whole CHECK ((shared_from IS NULL) = (shared_item_id IS NULL))
) WITH (fillfactor = 90, toast_tuple_target = 2048);

-- An entry of this index grows with every item that has the word, and is logged whole when it changes: several kilobytes
-- an item. So new items wait in a short list that a search reads too, and are sorted in some dozens at a time.
CREATE INDEX items_text ON items USING gin (tenant_id, tsv) WITH (fastupdate = on, gin_pending_list_limit = 64);
CREATE INDEX items_by_event_time ON items (tenant_id, event_time);
CREATE INDEX items_by_thread ON items (tenant_id, thread, position) WHERE thread IS NOT NULL;
CREATE INDEX items_by_owner ON items (tenant_id, scope, user_id);
CREATE INDEX items_by_claim ON items (tenant_id, subject, predicate) WHERE subject IS NOT NULL AND predicate IS NOT NULL;
CREATE INDEX items_by_successor ON items (tenant_id, superseded_by) WHERE superseded_by IS NOT NULL;
-- The newest episodes of an agent are read at the start of every turn.
CREATE INDEX items_episodes ON items (tenant_id, agent_id, item_id) WHERE kind = 'episode';
-- Every write checks the condition of every partial index, so there are few: recent items are walked by id, one index
-- finds all that may end, and lasting knowledge is found by its owner.
CREATE INDEX items_ending ON items (tenant_id, item_id)
    WHERE anonymized_at IS NULL AND (NOT live OR tier IN ('run', 'session'));
CREATE INDEX items_lasting ON items (tenant_id, kind, scope, user_id, agent_id) WHERE kind IN ('fact', 'procedure');
CREATE UNIQUE INDEX items_shared ON items (tenant_id, shared_from, shared_item_id) WHERE shared_from IS NOT NULL;

CREATE TABLE vectors (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    model_id text NOT NULL,
    live boolean NOT NULL,
    kind text NOT NULL,
    scope text NOT NULL,
    user_id text,
    agent_id text,
    session_id text,
    event_time timestamptz NOT NULL,
    embedding halfvec NOT NULL,
    owner text GENERATED ALWAYS AS (
        scope || ':' || CASE scope WHEN 'user' THEN user_id WHEN 'agent' THEN agent_id WHEN 'session' THEN session_id ELSE '' END
    ) STORED,
    PRIMARY KEY (tenant_id, model_id, item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
);
ALTER TABLE vectors ALTER COLUMN embedding SET STORAGE PLAIN;
-- The index holds all that a recall can filter by, so that the vectors which may answer are counted without reading them,
-- and read alone when they are few, however large the tenant is.
CREATE INDEX vectors_by_owner ON vectors (tenant_id, model_id, owner, kind, event_time) WHERE live;

-- A body belongs to an item or is the original of a document.
CREATE TABLE payloads (
    tenant_id uuid NOT NULL,
    payload_key text NOT NULL,
    item_id uuid,
    document_id uuid,
    media_type text NOT NULL DEFAULT 'text/plain; charset=utf-8',
    bytes bigint NOT NULL,
    sha256 bytea NOT NULL,
    body bytea,
    object_key text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, payload_key),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE,
    CHECK ((body IS NULL) <> (object_key IS NULL)),
    CHECK ((item_id IS NULL) <> (document_id IS NULL))
);
CREATE INDEX payloads_by_item ON payloads (tenant_id, item_id);
CREATE UNIQUE INDEX payloads_by_document ON payloads (tenant_id, document_id) WHERE document_id IS NOT NULL;
CREATE INDEX payloads_by_object ON payloads (tenant_id, object_key) WHERE object_key IS NOT NULL;

-- Objects to delete: their row is gone already. They are listed here so that a crash in between loses none.
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

CREATE TABLE entities (
    tenant_id uuid NOT NULL REFERENCES tenants,
    entity_id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    key text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, entity_id),
    UNIQUE (tenant_id, key)
);

CREATE TABLE mentions (
    tenant_id uuid NOT NULL,
    entity_id uuid NOT NULL,
    item_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, entity_id, item_id),
    FOREIGN KEY (tenant_id, entity_id) REFERENCES entities ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
);
CREATE INDEX mentions_by_item ON mentions (tenant_id, item_id);

-- How often and when last an item was recalled. Apart from items, so that counting rewrites no item.
CREATE TABLE access (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    times bigint NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items ON DELETE CASCADE
) WITH (fillfactor = 70);

-- Counts the changes to what each owner may recall, so that any process can tell whether an answer it kept still holds.
CREATE TABLE memory_versions (
    tenant_id uuid NOT NULL REFERENCES tenants,
    owner_class integer NOT NULL,
    slot integer NOT NULL,     -- writers at the same moment take different ones: none waits for another
    version bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant_id, owner_class, slot)
) WITH (fillfactor = 50);

GRANT SELECT, INSERT, UPDATE, DELETE ON items, vectors, payloads, discarded_objects, entities, mentions, access
    TO recordari_app, recordari_retention;
GRANT SELECT, INSERT, UPDATE ON memory_versions TO recordari_app, recordari_retention;
GRANT SELECT ON items, vectors, payloads, entities, mentions, access, memory_versions TO recordari_readonly;

-- A user's own items, and those of the user's sessions, are shown to that user only: the id of a session opens nothing.
-- A job or an administrator has no user and sees the tenant's.
ALTER TABLE items ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_and_user ON items TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant() AND (scope NOT IN ('user', 'session') OR current_app_user() IS NULL
        OR user_id = current_app_user() OR (scope = 'session' AND user_id IS NULL)))
    WITH CHECK (tenant_id = current_tenant() AND (scope NOT IN ('user', 'session') OR current_app_user() IS NULL
        OR user_id = current_app_user() OR (scope = 'session' AND user_id IS NULL)));
CREATE POLICY tenant ON items TO recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

-- For vectors the rule uses only columns of vectors_by_owner, so that counting in it need not read the rows. It may be wider
-- than that of items: a vector is shown only through its item.
ALTER TABLE vectors ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_and_user ON vectors TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant() AND (
        left(owner, 5) <> 'user:' OR owner = 'user:' || current_app_user() OR current_app_user() IS NULL))
    WITH CHECK (tenant_id = current_tenant() AND (
        left(owner, 5) <> 'user:' OR owner = 'user:' || current_app_user() OR current_app_user() IS NULL));
CREATE POLICY tenant ON vectors TO recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

-- A body that is deleted by a cascade is deleted by the owner, which lists its object.
CREATE POLICY cascade ON discarded_objects TO recordari_owner
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['payloads', 'discarded_objects', 'entities', 'mentions', 'access', 'memory_versions'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;

-- Owners fall into 4,096 classes by a hash: no name is kept here, and the rows of a tenant stay few.
CREATE FUNCTION owner_class(scope text, user_id text, agent_id text, session_id text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (hashtextextended(scope || ':' || COALESCE(
        CASE scope WHEN 'user' THEN user_id WHEN 'agent' THEN agent_id WHEN 'session' THEN session_id END, ''), 0)
        & 4095)::integer;

CREATE FUNCTION count_change(of_tenant uuid, of_class integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_versions m SET version = m.version + 1
    WHERE m.tenant_id = of_tenant AND m.owner_class = of_class AND m.slot = (
        SELECT s.slot FROM memory_versions s WHERE s.tenant_id = of_tenant AND s.owner_class = of_class
        LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
        INSERT INTO memory_versions (tenant_id, owner_class, slot)
        VALUES (of_tenant, of_class, (random() * 2147483646)::integer);
    END IF;
END $$;

CREATE FUNCTION count_new_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_change(c.tenant_id, c.class) FROM (
        SELECT DISTINCT tenant_id, owner_class(scope, user_id, agent_id, session_id) AS class FROM changed) c;
    RETURN NULL;
END $$;

-- Every change to a row counts, also to derived columns: copies in a process are compared with the count.
CREATE FUNCTION count_changed_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM recordari.count_change(c.tenant_id, c.class) FROM (
        SELECT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) AS class FROM before
        UNION SELECT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) FROM changed) c;
    RETURN NULL;
END $$;

-- New items are counted by `note_new_items`, together with their events.
CREATE TRIGGER items_count_updated AFTER UPDATE ON items
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_items();
CREATE TRIGGER items_count_deleted AFTER DELETE ON items
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_new_items();

-- A writer to a thread holds its lock, so that no two items get one place in it. Threads share 64 locks in each tenant: an
-- import of a thousand sessions takes no more, for all of which a server has room.
CREATE FUNCTION thread_lock(of_tenant uuid, thread text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN hashtextextended('recordari thread ' || of_tenant::text || ' ' || (hashtext(thread) & 63)::text, 0);
