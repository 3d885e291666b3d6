-- Writing one item takes fewer steps: its change is counted where it is noted, and fewer indexes and rules are looked at.
CREATE OR REPLACE FUNCTION note_new_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH told AS (
        INSERT INTO recordari.events (tenant_id, type, subject_id, kind)
        SELECT tenant_id, 'item.created', item_id, kind FROM added WHERE anonymized_at IS NULL
    ), changed AS MATERIALIZED (
        SELECT DISTINCT tenant_id, recordari.owner_class(scope, user_id, agent_id, session_id) AS class FROM added
    ), counted AS (
        -- As `count_change` does it, for all at once.
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

-- Events are numbered in the order of their times, nearly enough to find the old ones by their numbers.
DROP INDEX events_by_time;

-- Every partial index costs a look at its condition for each row that is written. What is recent is most of all rows and is
-- walked by id; what ends is one walk; what lasts is found by its owner.
DROP INDEX items_recent, items_retired, items_transient, items_facts_of_user, items_facts_of_agent, items_of_everyone;
CREATE INDEX items_ending ON items (tenant_id, item_id)
    WHERE anonymized_at IS NULL AND (NOT live OR tier IN ('run', 'session'));
CREATE INDEX items_lasting ON items (tenant_id, kind, scope, user_id, agent_id) WHERE kind IN ('fact', 'procedure');

ALTER TABLE items
    DROP CONSTRAINT items_scope_check, DROP CONSTRAINT items_tier_check, DROP CONSTRAINT items_trust_check,
    DROP CONSTRAINT items_confidence_check,
    ADD CONSTRAINT items_known_words CHECK (
        scope IN ('session', 'user', 'agent', 'tenant') AND tier IN ('run', 'session', 'recent', 'persistent')
        AND trust IN ('user', 'agent', 'tool', 'document', 'external') AND confidence BETWEEN 0 AND 1);

-- Who writes to a thread holds its lock, so that no two items get one place in it. Threads share 64 locks in each tenant: an
-- import of a thousand sessions takes no more, for all of which a server has room.
CREATE FUNCTION thread_lock(of_tenant uuid, thread text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN hashtextextended('recordari thread ' || of_tenant::text || ' ' || (hashtext(thread) & 63)::text, 0);
