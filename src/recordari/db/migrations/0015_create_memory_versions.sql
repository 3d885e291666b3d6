-- Counts the changes to what each owner may recall, so that any process can tell whether an answer it kept still holds.

-- Owners stand in 4,096 classes by a hash: no name is kept here, and the rows of a tenant stay few.
CREATE FUNCTION owner_class(scope text, user_id text, agent_id text, session_id text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (hashtextextended(scope || ':' || COALESCE(
        CASE scope WHEN 'user' THEN user_id WHEN 'agent' THEN agent_id WHEN 'session' THEN session_id END, ''), 0)
        & 4095)::integer;

CREATE TABLE memory_versions (
    tenant_id uuid NOT NULL REFERENCES tenants,
    owner_class integer NOT NULL,
    slot integer NOT NULL,     -- writers at the same moment take different ones: none waits for another
    version bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant_id, owner_class, slot)
) WITH (fillfactor = 50);

GRANT SELECT, INSERT, UPDATE ON memory_versions TO recordari_app, recordari_retention;
GRANT SELECT ON memory_versions TO recordari_readonly;
ALTER TABLE memory_versions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory_versions TO recordari_app, recordari_retention, recordari_readonly
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

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

-- What only the index derives does not count: it changes no answer that anybody waits for.
CREATE FUNCTION count_changed_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_change(c.tenant_id, c.class) FROM (
        SELECT DISTINCT tenant_id, unnest(ARRAY[
            owner_class(o.scope, o.user_id, o.agent_id, o.session_id),
            owner_class(n.scope, n.user_id, n.agent_id, n.session_id)]) AS class
        FROM before o JOIN changed n USING (tenant_id, item_id)
        WHERE (o.content_hash, o.content, o.live, o.scope, o.user_id, o.agent_id, o.session_id, o.event_time, o.valid_at, o.invalid_at,
                o.superseded_by, o.trust, o.speaker, o.deleted_at, o.anonymized_at, o.metadata)
            IS DISTINCT FROM
            (n.content_hash, n.content, n.live, n.scope, n.user_id, n.agent_id, n.session_id, n.event_time, n.valid_at, n.invalid_at,
                n.superseded_by, n.trust, n.speaker, n.deleted_at, n.anonymized_at, n.metadata)) c;
    RETURN NULL;
END $$;

CREATE TRIGGER items_count_inserted AFTER INSERT ON items
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_new_items();
CREATE TRIGGER items_count_updated AFTER UPDATE ON items
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_changed_items();
CREATE TRIGGER items_count_deleted AFTER DELETE ON items
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_new_items();

-- What is shared by the whole tenant stands in every context, and must be found however many documents there are.
CREATE INDEX items_of_everyone ON items (tenant_id, item_id) WHERE scope = 'tenant' AND kind IN ('fact', 'procedure');
