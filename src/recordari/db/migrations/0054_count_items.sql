-- The items of a tenant by day, kind, tier, scope and state, counted by every write: millions of them are known at once.

-- Each row is a summand. A statement adds the difference that it makes and waits for no other; now and then the rows of a
-- tenant are replaced by their sums. No key to tenants: it would be looked up at each write, and items have it.
CREATE TABLE item_counts (
    tenant_id uuid NOT NULL,
    day date NOT NULL,         -- when the items were recorded (UTC)
    number bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    tier text NOT NULL,
    scope text NOT NULL,
    state text NOT NULL,
    items bigint NOT NULL,
    bytes bigint NOT NULL,
    pinned bigint NOT NULL,
    PRIMARY KEY (tenant_id, day, number)
);
GRANT SELECT, INSERT, DELETE ON item_counts TO recordari_app;
GRANT SELECT, INSERT ON item_counts TO recordari_retention;
GRANT SELECT ON item_counts TO recordari_readonly;

-- Whoever acts for one user adds to the counts, and reads none.
ALTER TABLE item_counts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY written ON item_counts FOR INSERT TO recordari_app WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant ON item_counts TO recordari_tenant, recordari_retention, recordari_readonly
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

CREATE FUNCTION item_state(
    anonymized_at timestamptz, deleted_at timestamptz, superseded_by uuid, invalid_at timestamptz, archived_at timestamptz)
    RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN anonymized_at IS NOT NULL THEN 'forgotten' WHEN deleted_at IS NOT NULL THEN 'deleted'
        WHEN superseded_by IS NOT NULL THEN 'superseded' WHEN invalid_at IS NOT NULL THEN 'invalid'
        WHEN archived_at IS NOT NULL THEN 'archived' ELSE 'live' END;

-- As before, and the new items are counted, in the same statement.
CREATE OR REPLACE FUNCTION note_new_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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
    WHERE NOT EXISTS (SELECT FROM counted d WHERE d.tenant_id = c.tenant_id AND d.owner_class = c.class);
    RETURN NULL;
END $$;

-- As before, and what left one count and came to another is counted. One trigger for both, because each one costs every
-- update; most updates of an item are of neither sort.
CREATE OR REPLACE FUNCTION tell_changed_item() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    state_before text := recordari.item_state(
        OLD.anonymized_at, OLD.deleted_at, OLD.superseded_by, OLD.invalid_at, OLD.archived_at);
    state_now text := recordari.item_state(
        NEW.anonymized_at, NEW.deleted_at, NEW.superseded_by, NEW.invalid_at, NEW.archived_at);
BEGIN
    IF OLD.live IS DISTINCT FROM NEW.live OR OLD.content_hash IS DISTINCT FROM NEW.content_hash
        OR OLD.superseded_by IS DISTINCT FROM NEW.superseded_by
    THEN
        INSERT INTO recordari.events (tenant_id, type, subject_id, kind) VALUES (NEW.tenant_id, CASE
            WHEN (NEW.anonymized_at IS NOT NULL OR NEW.deleted_at IS NOT NULL)
                AND OLD.anonymized_at IS NULL AND OLD.deleted_at IS NULL THEN 'item.forgotten'
            WHEN NEW.superseded_by IS NOT NULL AND OLD.superseded_by IS NULL THEN 'item.superseded'
            WHEN NEW.invalid_at IS NOT NULL AND OLD.invalid_at IS NULL THEN 'item.invalidated'
            WHEN NEW.archived_at IS NOT NULL AND OLD.archived_at IS NULL THEN 'item.archived'
            WHEN NEW.live AND NOT OLD.live THEN 'item.restored'
            ELSE 'item.changed' END, NEW.item_id, NEW.kind);
    END IF;
    INSERT INTO recordari.item_counts (tenant_id, day, kind, tier, scope, state, items, bytes, pinned) VALUES
        (OLD.tenant_id, (OLD.created_at AT TIME ZONE 'UTC')::date, OLD.kind, OLD.tier, OLD.scope, state_before,
            -1, -octet_length(OLD.content), -(OLD.pinned_at IS NOT NULL)::integer),
        (NEW.tenant_id, (NEW.created_at AT TIME ZONE 'UTC')::date, NEW.kind, NEW.tier, NEW.scope, state_now,
            1, octet_length(NEW.content), (NEW.pinned_at IS NOT NULL)::integer);
    RETURN NULL;
END $$;
DROP TRIGGER items_tell_changed ON items;
CREATE TRIGGER items_tell_changed AFTER UPDATE ON items FOR EACH ROW
    WHEN (OLD.live IS DISTINCT FROM NEW.live OR OLD.content_hash IS DISTINCT FROM NEW.content_hash
        OR OLD.superseded_by IS DISTINCT FROM NEW.superseded_by OR OLD.invalid_at IS DISTINCT FROM NEW.invalid_at
        OR OLD.archived_at IS DISTINCT FROM NEW.archived_at OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at
        OR OLD.anonymized_at IS DISTINCT FROM NEW.anonymized_at OR OLD.pinned_at IS DISTINCT FROM NEW.pinned_at
        OR OLD.tier <> NEW.tier OR OLD.scope <> NEW.scope OR OLD.kind <> NEW.kind OR OLD.created_at <> NEW.created_at
        OR octet_length(OLD.content) <> octet_length(NEW.content))
    EXECUTE FUNCTION tell_changed_item();

CREATE FUNCTION count_removed_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM recordari.count_change(c.tenant_id, c.class) FROM (
        SELECT DISTINCT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) AS class FROM removed) c;
    INSERT INTO recordari.item_counts (tenant_id, day, kind, tier, scope, state, items, bytes, pinned)
    SELECT tenant_id, (created_at AT TIME ZONE 'UTC')::date, kind, tier, scope,
        recordari.item_state(anonymized_at, deleted_at, superseded_by, invalid_at, archived_at),
        -count(*), -sum(octet_length(content)), -count(pinned_at)
    FROM removed GROUP BY 1, 2, 3, 4, 5, 6;
    RETURN NULL;
END $$;
DROP TRIGGER items_count_deleted ON items;
DROP FUNCTION count_new_items();
CREATE TRIGGER items_count_deleted AFTER DELETE ON items
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed_items();

-- What is there already is counted by the owner of the tables, whom their policies would show nothing.
ALTER TABLE items NO FORCE ROW LEVEL SECURITY;
ALTER TABLE item_counts NO FORCE ROW LEVEL SECURITY;
INSERT INTO item_counts (tenant_id, day, kind, tier, scope, state, items, bytes, pinned)
SELECT tenant_id, (created_at AT TIME ZONE 'UTC')::date, kind, tier, scope,
    item_state(anonymized_at, deleted_at, superseded_by, invalid_at, archived_at),
    count(*), sum(octet_length(content)), count(pinned_at)
FROM items GROUP BY 1, 2, 3, 4, 5, 6;
ALTER TABLE item_counts FORCE ROW LEVEL SECURITY;
ALTER TABLE items FORCE ROW LEVEL SECURITY;

SELECT sample_no_text();
SELECT expect_full_tenants();
