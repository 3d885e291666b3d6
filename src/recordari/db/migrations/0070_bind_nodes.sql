-- A cluster divided by tenant (Citus): the same schema runs on one server and on the nodes of a cluster. There a trigger runs on
-- the node that holds the row, on a part of the table (a shard, whose name ends with its number). It finds tables by their whole
-- names, and a statement in it is about one tenant. Where that costs a server something, the server keeps its own way: on it the
-- name of the trigger's table is that of the table.

-- Bind a transaction to a tenant, a user and a role on every node that takes part in it.
CREATE FUNCTION bind_nodes(tenant text, who text, acting text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF acting IS NOT NULL THEN
        PERFORM set_config('role', acting, true);
    END IF;
    PERFORM set_config('plan_cache_mode', 'force_custom_plan', true);
    EXECUTE format('SET LOCAL app.tenant_id = %L', tenant);
    EXECUTE format('SET LOCAL app.user_id = %L', who);
END $$;

-- An error of a node comes without the name of its constraint, but with its detail.
CREATE OR REPLACE FUNCTION keep_shared() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a shared item is read-only' USING ERRCODE = 'check_violation', DETAIL = 'items_shared_are_read_only',
        CONSTRAINT = 'items_shared_are_read_only', TABLE = 'items';
END $$;
CREATE OR REPLACE FUNCTION guard_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF recordari.copies_protected(NEW.tenant_id, NEW.source_id, NEW.content) THEN
        RAISE EXCEPTION 'the text copies a protected document' USING ERRCODE = 'check_violation', DETAIL = 'items_leak_guard',
            CONSTRAINT = 'items_leak_guard', TABLE = 'items';
    END IF;
    RETURN NEW;
END $$;

-- An item is known again by its columns: the row of a shard is no row of the table.
CREATE FUNCTION item_hashes(
    salt bytea, kind text, scope text, user_id text, agent_id text, session_id text, source_ref text, event_time timestamptz,
    content_hash bytea) RETURNS bytea[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY[
        recordari.erasure_hash(salt, 'ref', kind, recordari.item_owner(kind, scope, user_id, agent_id), source_ref),
        recordari.erasure_hash(salt, 'content', kind,
            CASE WHEN kind = 'document_chunk' THEN '' ELSE scope || ':' || COALESCE(
                CASE scope WHEN 'user' THEN user_id WHEN 'agent' THEN agent_id
                    WHEN 'session' THEN recordari.owner_of(user_id, agent_id) || chr(31) || session_id END,
                '') END,
            CASE WHEN kind IN ('fact', 'document_chunk') THEN '' ELSE extract(epoch FROM event_time)::text END,
            encode(content_hash, 'hex'))]
$$;
CREATE OR REPLACE FUNCTION keep_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    salt bytea;
    hashes bytea[];
BEGIN
    IF NEW.anonymized_at IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM recordari.tombstones t WHERE t.tenant_id = NEW.tenant_id)
    THEN
        RETURN NEW;
    END IF;
    SELECT t.salt INTO salt FROM recordari.tenants t WHERE t.tenant_id = NEW.tenant_id;
    hashes := recordari.item_hashes(
        salt, NEW.kind, NEW.scope, NEW.user_id, NEW.agent_id, NEW.session_id, NEW.source_ref, NEW.event_time, NEW.content_hash)
        || recordari.erasure_hash(salt, 'user', COALESCE(NEW.user_id, ''));
    IF EXISTS (
        SELECT 1 FROM recordari.tombstones t
        WHERE t.tenant_id = NEW.tenant_id AND (t.is_final OR NEW.event_time <= t.forgotten_at) AND t.hash = ANY(hashes)
    ) THEN
        RETURN NULL;  -- the row is left out, and its writer learns that it is not new
    END IF;
    RETURN NEW;
END $$;
DROP FUNCTION item_hashes(bytea, items);

CREATE OR REPLACE FUNCTION is_erased_user(who text, moment timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    tenant uuid := recordari.current_tenant();
    hash_of_user bytea;
BEGIN
    SELECT recordari.erasure_hash(t.salt, 'user', who) INTO hash_of_user FROM recordari.tenants t WHERE t.tenant_id = tenant;
    RETURN EXISTS (
        SELECT 1 FROM recordari.tombstones t
        WHERE t.tenant_id = tenant AND t.hash = hash_of_user AND moment <= t.forgotten_at);
END $$;

-- A moment some seconds later. Immutable, unlike the sum with an interval, so that a node may take the seconds from a row.
CREATE FUNCTION shifted(moment timestamptz, seconds double precision) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN to_timestamp(extract(epoch FROM moment)::double precision + seconds);

-- When an item goes, its entry loses it. By a trigger: a key of a cluster cannot take one column away.
CREATE FUNCTION release_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE recordari.entries e SET item_id = NULL WHERE e.tenant_id = OLD.tenant_id AND e.item_id = OLD.item_id;
    RETURN OLD;
END $$;
ALTER TABLE entries DROP CONSTRAINT entries_tenant_id_item_id_fkey,
    ADD CONSTRAINT entries_tenant_id_item_id_fkey FOREIGN KEY (tenant_id, item_id) REFERENCES items;
CREATE TRIGGER items_release_entry BEFORE DELETE ON items FOR EACH ROW WHEN (OLD.kind = 'entry') EXECUTE FUNCTION release_entry();

-- The node decides which writers are older than an erasure: its transactions are numbered by itself.
CREATE FUNCTION number_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.start_xid := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE TRIGGER erasures_are_numbered BEFORE INSERT OR UPDATE OF requested_at ON erasures
    FOR EACH ROW EXECUTE FUNCTION number_erasure();

ALTER TABLE recordari_queue.outbox DROP CONSTRAINT outbox_pkey, ADD PRIMARY KEY (tenant_id, outbox_id);
