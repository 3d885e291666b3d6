-- Triggers that also run on a shard. On one server each does what it did before.

CREATE OR REPLACE FUNCTION count_change(of_tenant uuid, of_class integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE recordari.memory_versions m SET version = m.version + 1
    WHERE m.tenant_id = of_tenant AND m.owner_class = of_class AND m.slot = (
        SELECT s.slot FROM recordari.memory_versions s WHERE s.tenant_id = of_tenant AND s.owner_class = of_class
        LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
        INSERT INTO recordari.memory_versions (tenant_id, owner_class, slot)
        VALUES (of_tenant, of_class, (random() * 2147483646)::integer);
    END IF;
END $$;

-- On a shard the rows are written as values: a statement that joins them with a table would be of more than one node.
CREATE OR REPLACE FUNCTION note_new_items() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    told text;
    counts text;
    change record;
BEGIN
    IF TG_TABLE_NAME <> 'items' THEN
        SELECT string_agg(format('(%L, %L, %L, %L)', tenant_id, 'item.created', item_id, kind), ', ') INTO told
        FROM added WHERE anonymized_at IS NULL;
        IF told IS NOT NULL THEN
            EXECUTE 'INSERT INTO recordari.events (tenant_id, type, subject_id, kind) VALUES ' || told;
        END IF;
        SELECT string_agg(format('(%L, %L, %L, %L, %L, %L, %L, %L, %L)',
            tenant_id, day, kind, tier, scope, state, items, bytes, pinned), ', ') INTO counts
        FROM (
            SELECT tenant_id, (created_at AT TIME ZONE 'UTC')::date AS day, kind, tier, scope,
                recordari.item_state(anonymized_at, deleted_at, superseded_by, invalid_at, archived_at) AS state,
                count(*) AS items, sum(octet_length(content)) AS bytes, count(pinned_at) AS pinned
            FROM added GROUP BY 1, 2, 3, 4, 5, 6) c;
        IF counts IS NOT NULL THEN
            EXECUTE 'INSERT INTO recordari.item_counts (tenant_id, day, kind, tier, scope, state, items, bytes, pinned) VALUES '
                || counts;
        END IF;
        FOR change IN
            SELECT DISTINCT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) AS class FROM added
        LOOP
            PERFORM recordari.count_change(change.tenant_id, change.class);
        END LOOP;
        RETURN NULL;
    END IF;
    WITH new_events AS (
        INSERT INTO recordari.events (tenant_id, type, subject_id, kind)
        SELECT tenant_id, 'item.created', item_id, kind FROM added WHERE anonymized_at IS NULL
    ), new_counts AS (
        INSERT INTO recordari.item_counts (tenant_id, day, kind, tier, scope, state, items, bytes, pinned)
        SELECT tenant_id, (created_at AT TIME ZONE 'UTC')::date, kind, tier, scope,
            recordari.item_state(anonymized_at, deleted_at, superseded_by, invalid_at, archived_at),
            count(*), sum(octet_length(content)), count(pinned_at)
        FROM added GROUP BY 1, 2, 3, 4, 5, 6
    ), changed AS MATERIALIZED (
        SELECT DISTINCT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) AS class FROM added
    ), counted AS (
        UPDATE recordari.memory_versions m SET version = m.version + 1
        FROM changed c CROSS JOIN LATERAL (
            SELECT s.slot FROM recordari.memory_versions s WHERE s.tenant_id = c.tenant_id AND s.owner_class = c.class
            LIMIT 1 FOR UPDATE SKIP LOCKED) free
        WHERE m.tenant_id = c.tenant_id AND m.owner_class = c.class AND m.slot = free.slot
        RETURNING m.tenant_id, m.owner_class
    )
    INSERT INTO recordari.memory_versions (tenant_id, owner_class, slot)
    SELECT c.tenant_id, c.class, (random() * 2147483646)::integer FROM changed c
    WHERE NOT EXISTS (SELECT 1 FROM counted d WHERE d.tenant_id = c.tenant_id AND d.owner_class = c.class);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_changed_items() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    FOR change IN
        SELECT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) AS class FROM before
        UNION SELECT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) FROM changed
    LOOP
        PERFORM recordari.count_change(change.tenant_id, change.class);
    END LOOP;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_removed_items() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    FOR change IN
        SELECT DISTINCT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) AS class FROM removed
    LOOP
        PERFORM recordari.count_change(change.tenant_id, change.class);
    END LOOP;
    FOR change IN
        SELECT tenant_id, (created_at AT TIME ZONE 'UTC')::date AS day, kind, tier, scope,
            recordari.item_state(anonymized_at, deleted_at, superseded_by, invalid_at, archived_at) AS state,
            -count(*) AS items, -sum(octet_length(content)) AS bytes, -count(pinned_at) AS pinned
        FROM removed GROUP BY 1, 2, 3, 4, 5, 6
    LOOP
        INSERT INTO recordari.item_counts (tenant_id, day, kind, tier, scope, state, items, bytes, pinned)
        VALUES (change.tenant_id, change.day, change.kind, change.tier, change.scope, change.state, change.items, change.bytes,
            change.pinned);
    END LOOP;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_new_links() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ours xid;
    fact record;
    class integer;
    classes integer[] := '{}';
BEGIN
    IF TG_TABLE_NAME <> 'evidence' THEN
        ours := pg_current_xact_id()::xid;
        FOR fact IN SELECT DISTINCT tenant_id, item_id FROM added LOOP
            SELECT recordari.owner_class(i.scope, i.user_id, i.agent_id, i.session_id) INTO class FROM recordari.items i
            WHERE i.tenant_id = fact.tenant_id AND i.item_id = fact.item_id AND i.xmin <> ours;
            IF FOUND AND class <> ALL(classes) THEN
                classes := classes || class;
                PERFORM recordari.count_change(fact.tenant_id, class);
            END IF;
        END LOOP;
        RETURN NULL;
    END IF;
    PERFORM recordari.count_change(c.tenant_id, c.class) FROM (
        SELECT DISTINCT i.tenant_id, i.class FROM added a CROSS JOIN LATERAL (
            SELECT i.tenant_id, recordari.owner_class(i.scope, i.user_id, i.agent_id, i.session_id) AS class
            FROM recordari.items i
            WHERE i.tenant_id = a.tenant_id AND i.item_id = a.item_id AND i.xmin <> pg_current_xact_id()::xid OFFSET 0) i) c;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION wake_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    tenant uuid := recordari.current_tenant();
    told text := COALESCE(current_setting('app.told_webhooks', true), '');
    news text[];
    wanting uuid;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM recordari.webhooks w WHERE w.tenant_id = tenant) THEN
        RETURN NULL;
    END IF;
    news := ARRAY(SELECT DISTINCT e.type FROM new_events e WHERE strpos(told, concat(tenant, ' ', e.type, ',')) = 0);
    IF news = '{}' THEN
        RETURN NULL;
    END IF;
    FOR wanting IN
        SELECT w.webhook_id FROM recordari.webhooks w
        WHERE w.tenant_id = tenant AND w.is_active AND w.failing_since IS NULL AND (w.types = '{}' OR w.types && news)
    LOOP
        INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) VALUES ('webhook', tenant, wanting);
    END LOOP;
    IF FOUND THEN
        PERFORM pg_notify('recordari_outbox', 'database webhook');
    END IF;
    PERFORM set_config(
        'app.told_webhooks', told || (SELECT string_agg(concat(tenant, ' ', n, ','), '') FROM unnest(news) AS n), true);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION outdate_profile() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fact record;
    stale uuid;
BEGIN
    IF TG_OP = 'INSERT' THEN fact := NEW; ELSE fact := OLD; END IF;
    IF fact.scope = 'user' THEN
        SELECT p.profile_id INTO stale FROM recordari.profiles p WHERE p.tenant_id = fact.tenant_id AND p.user_id = fact.user_id;
    ELSE
        SELECT p.profile_id INTO stale FROM recordari.profiles p WHERE p.tenant_id = fact.tenant_id AND p.agent_id = fact.agent_id;
    END IF;
    IF stale IS NOT NULL THEN
        INSERT INTO recordari.profile_changes (tenant_id, profile_id) VALUES (fact.tenant_id, stale);
        IF NOT EXISTS (
            SELECT 1 FROM recordari_queue.outbox o
            WHERE o.tenant_id = fact.tenant_id AND o.topic = 'profile' AND o.ref = stale AND o.attempts = 0)
        THEN
            INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) VALUES ('profile', fact.tenant_id, stale);
        END IF;
        IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND NEW.anonymized_at IS NOT NULL) THEN
            -- Forgotten: the stored copy must not show it either.
            UPDATE recordari.profiles p SET content = '', facts = 0
            WHERE p.tenant_id = fact.tenant_id AND p.profile_id = stale;
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION outdate_answers() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fact record;
    stale uuid;
BEGIN
    IF TG_OP = 'INSERT' THEN fact := NEW; ELSE fact := OLD; END IF;
    FOR stale IN
        SELECT a.answer_id FROM recordari.question_answers a WHERE a.tenant_id = fact.tenant_id AND a.user_id = fact.user_id
    LOOP
        IF NOT EXISTS (
            SELECT 1 FROM recordari_queue.outbox o
            WHERE o.tenant_id = fact.tenant_id AND o.topic = 'question' AND o.ref = stale AND o.attempts = 0)
        THEN
            INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) VALUES ('question', fact.tenant_id, stale);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION clear_answers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE recordari.question_answers a SET content = '', sources = '{}', version = -1
    WHERE a.tenant_id = OLD.tenant_id AND a.user_id = OLD.user_id AND OLD.item_id = ANY(a.sources);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION discard_object() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recordari.discarded_objects (tenant_id, object_key) VALUES (OLD.tenant_id, OLD.object_key)
    ON CONFLICT (tenant_id, object_key) DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION drop_forgotten_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recordari.entries e WHERE e.tenant_id = NEW.tenant_id AND e.item_id = NEW.item_id;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION forget_chunk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recordari.payloads p USING recordari.document_chunks c
    WHERE c.tenant_id = NEW.tenant_id AND c.item_id = NEW.item_id
        AND p.tenant_id = NEW.tenant_id AND p.document_id = c.document_id;
    DELETE FROM recordari.document_chunks c WHERE c.tenant_id = NEW.tenant_id AND c.item_id = NEW.item_id;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION follow_shared() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM recordari.shares s WHERE s.tenant_id = OLD.tenant_id AND s.item_id = OLD.item_id) THEN
        INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) VALUES ('share', OLD.tenant_id, OLD.item_id);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION keep_protected_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recordari.protected_texts p WHERE p.tenant_id = NEW.tenant_id AND p.item_id = NEW.item_id;
    IF NEW.live AND EXISTS (
        SELECT 1 FROM recordari.protected_sources s WHERE s.tenant_id = NEW.tenant_id AND s.source_id = NEW.source_id)
    THEN
        INSERT INTO recordari.protected_texts (tenant_id, item_id, source_id, content)
        VALUES (NEW.tenant_id, NEW.item_id, NEW.source_id, NEW.content);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION keep_source() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = recordari, pg_temp AS $$
BEGIN
    PERFORM 1 FROM recordari.items i
    WHERE i.tenant_id = NEW.tenant_id AND i.item_id = NEW.source_item_id AND i.anonymized_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the source was forgotten' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION look_for_copies() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ours xid := pg_current_xact_id()::xid;
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM recordari_queue.outbox o
        WHERE o.tenant_id = NEW.tenant_id AND o.topic = 'end_copies' AND o.ref = NEW.source_id AND o.xmin = ours)
    THEN
        INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) VALUES ('end_copies', NEW.tenant_id, NEW.source_id);
    END IF;
    RETURN NULL;
END $$;
