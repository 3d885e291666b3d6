-- How a memory ends: holds that forbid it, tombstones of forgotten items, and erasures of users.

-- An action rests on the item: the foreign key alone forbids that the row is deleted.
CREATE TABLE holds (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    action_id text NOT NULL CHECK (length(action_id) BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, item_id, action_id),
    FOREIGN KEY (tenant_id, item_id) REFERENCES items
);

-- Hashes of items and users that were forgotten and must not come back; never their content.
CREATE TABLE tombstones (
    tenant_id uuid NOT NULL REFERENCES tenants,
    hash bytea NOT NULL,
    subject text NOT NULL CHECK (subject IN ('item', 'user')),
    item_id uuid,
    is_final boolean NOT NULL,             -- false: something that happened after forgotten_at is new
    forgotten_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, hash)
);

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

GRANT SELECT, INSERT, UPDATE, DELETE ON holds, tombstones, erasures TO recordari_app, recordari_retention;
GRANT SELECT ON holds, tombstones, erasures TO recordari_readonly;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['holds', 'tombstones', 'erasures'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY tenant ON %I TO recordari_app, recordari_retention, recordari_readonly
                 USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
    END LOOP;
END $$;

CREATE FUNCTION erasure_hash(salt bytea, VARIADIC parts text[]) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT sha256(salt || convert_to(array_to_string(parts, chr(31), ''), 'UTF8')) $$;

-- How a forgotten item is recognised: by its reference, or by its content and owner (for events also by their time).
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
        RETURN NULL;  -- the row is left out, and its writer learns that it is not new
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER items_stay_forgotten BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION keep_forgotten();

-- The audit is only appended to, with one exception: ids of an erased user become hashes. Nobody may do it in any
-- other way than by this function, and only under the role of retention.
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
