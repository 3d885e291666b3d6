-- The feed of changes, and webhooks that carry it on.

-- Ids and types, never content. A row gets its position when the feed is read: rows that commit late come later
-- in it, and no reader passes one over.
CREATE TABLE events (
    tenant_id uuid NOT NULL REFERENCES tenants,
    number bigint GENERATED ALWAYS AS IDENTITY,
    position bigint,
    at timestamptz NOT NULL DEFAULT now(),
    type text NOT NULL,
    subject_id uuid NOT NULL,
    kind text,                             -- of an item
    PRIMARY KEY (tenant_id, number)
);
CREATE UNIQUE INDEX events_in_order ON events (tenant_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_unplaced ON events (tenant_id, number) WHERE position IS NULL;

CREATE TABLE event_feeds (
    tenant_id uuid NOT NULL REFERENCES tenants,
    last_position bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id)
);

CREATE TABLE webhooks (
    tenant_id uuid NOT NULL REFERENCES tenants,
    webhook_id uuid NOT NULL,
    url text NOT NULL CHECK (length(url) BETWEEN 1 AND 2000),
    types text[] NOT NULL,                 -- empty: every type
    secret text NOT NULL,                  -- encrypted
    is_active boolean NOT NULL DEFAULT true,
    position bigint NOT NULL,              -- the last event that was delivered or passed over
    busy_until timestamptz NOT NULL DEFAULT '-infinity',
    failing_since timestamptz,
    failures integer NOT NULL DEFAULT 0,   -- since the last success
    last_error text,
    delivered_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, webhook_id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON events, event_feeds, webhooks TO recordari_app;
GRANT SELECT, INSERT ON events TO recordari_retention;
GRANT SELECT ON webhooks TO recordari_retention;
GRANT SELECT ON events, event_feeds TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['events', 'event_feeds', 'webhooks'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;

-- The feed shows every change of an item: no verb has to think of it. New items are also counted here, as
-- `count_change` does it but for all at once: one function for an insert takes fewer steps than two.
CREATE FUNCTION note_new_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH new_events AS (
        INSERT INTO recordari.events (tenant_id, type, subject_id, kind)
        SELECT tenant_id, 'item.created', item_id, kind FROM added WHERE anonymized_at IS NULL
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
    WHERE NOT EXISTS (SELECT FROM counted d WHERE d.tenant_id = c.tenant_id AND d.owner_class = c.class);
    RETURN NULL;
END $$;
CREATE TRIGGER items_note_new AFTER INSERT ON items REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION note_new_items();

CREATE FUNCTION tell_changed_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recordari.events (tenant_id, type, subject_id, kind) VALUES (NEW.tenant_id, CASE
        WHEN (NEW.anonymized_at IS NOT NULL OR NEW.deleted_at IS NOT NULL)
            AND OLD.anonymized_at IS NULL AND OLD.deleted_at IS NULL THEN 'item.forgotten'
        WHEN NEW.superseded_by IS NOT NULL AND OLD.superseded_by IS NULL THEN 'item.superseded'
        WHEN NEW.invalid_at IS NOT NULL AND OLD.invalid_at IS NULL THEN 'item.invalidated'
        WHEN NEW.archived_at IS NOT NULL AND OLD.archived_at IS NULL THEN 'item.archived'
        WHEN NEW.live AND NOT OLD.live THEN 'item.restored'
        ELSE 'item.changed' END, NEW.item_id, NEW.kind);
    RETURN NULL;
END $$;
CREATE TRIGGER items_tell_changed AFTER UPDATE ON items FOR EACH ROW
    WHEN (OLD.live IS DISTINCT FROM NEW.live OR OLD.content_hash IS DISTINCT FROM NEW.content_hash
        OR OLD.superseded_by IS DISTINCT FROM NEW.superseded_by)
    EXECUTE FUNCTION tell_changed_item();

CREATE FUNCTION tell_removed_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recordari.events (tenant_id, type, subject_id, kind) VALUES (OLD.tenant_id, 'item.removed', OLD.item_id, OLD.kind);
    RETURN NULL;
END $$;
CREATE TRIGGER items_tell_removed AFTER DELETE ON items FOR EACH ROW EXECUTE FUNCTION tell_removed_item();

CREATE FUNCTION tell_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recordari.events (tenant_id, type, subject_id) VALUES (NEW.tenant_id, 'user.erased', NEW.erasure_id);
    RETURN NULL;
END $$;
CREATE TRIGGER erasures_tell AFTER UPDATE ON erasures FOR EACH ROW
    WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL) EXECUTE FUNCTION tell_erasure();

-- Webhooks that want an event are put to work. One that fails is at work already and finds the event by itself; one that
-- was given up waits for a person. Whether the tenant has a webhook at all is one step in an index, and is looked at first.
CREATE FUNCTION wake_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM recordari.webhooks w WHERE w.tenant_id = recordari.current_tenant()) THEN
        RETURN NULL;
    END IF;
    INSERT INTO recordari_queue.outbox (topic, tenant_id, ref)
    SELECT 'webhook', w.tenant_id, w.webhook_id FROM recordari.webhooks w
    WHERE w.tenant_id IN (SELECT tenant_id FROM new_events) AND w.is_active AND w.failing_since IS NULL
        AND (w.types = '{}' OR w.types && ARRAY(SELECT type FROM new_events));
    IF FOUND THEN
        PERFORM pg_notify('recordari_outbox', 'database webhook');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER events_wake AFTER INSERT ON events REFERENCING NEW TABLE AS new_events
    FOR EACH STATEMENT EXECUTE FUNCTION wake_webhooks();
