-- Ids that a caller chooses belong to their owner.
--
-- The rule: a thing belongs to the user it was written for; without a user, to the agent; without either, to the tenant.
-- `owned_by` names that owner in one text, `user:…`, `agent:…` or `tenant`, and is part of every key that holds an id
-- of the caller's choice (session, run, reference, outcome, state). So the same id of another owner is another thing.
-- What belongs to a session or run (notes, turns, turn states, tool calls) repeats its owner, by foreign key.
-- One exception: a fact, procedure or entry of an agent belongs to the agent, and whatever has the scope tenant to the tenant,
-- because many users teach it.

CREATE FUNCTION owner_of(user_id text, agent_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE('user:' || user_id, 'agent:' || agent_id, 'tenant');

CREATE FUNCTION item_owner(kind text, scope text, user_id text, agent_id text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN scope = 'tenant' THEN 'tenant'
        WHEN scope = 'agent' AND kind IN ('fact', 'procedure', 'entry') THEN COALESCE('agent:' || agent_id, 'tenant')
        ELSE COALESCE('user:' || user_id, 'agent:' || agent_id, 'tenant') END;

-- The thread of a session, which is also the owner of its vectors. No id contains U+001F.
CREATE FUNCTION session_thread(owned_by text, session_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 'session:' || owned_by || chr(31) || session_id;

-- Whether the rows of an owner are the present user's to see; an administrator and a job have no user.
CREATE FUNCTION is_shown(owned_by text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN left(owned_by, 5) <> 'user:' OR current_app_user() IS NULL OR owned_by = 'user:' || current_app_user();

CREATE FUNCTION is_erased_owner(owned_by text, moment timestamptz) RETURNS boolean LANGUAGE sql STABLE
    RETURN left(owned_by, 5) = 'user:' AND is_erased_user(substr(owned_by, 6), moment);

-- Rows are filled in by the owner of the tables, whom their policies would show none.
DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['items', 'payloads', 'sessions', 'notes', 'runs', 'turns', 'turn_states',
            'tool_calls', 'state_owners', 'state', 'choices', 'outcomes'] LOOP
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', table_name);
    END LOOP;
END $$;

-- Sessions.
ALTER TABLE sessions ADD COLUMN owned_by text;
UPDATE sessions SET owned_by = owner_of(user_id, agent_id);
ALTER TABLE sessions ALTER COLUMN owned_by SET NOT NULL, ADD CHECK (owned_by = owner_of(user_id, agent_id)),
    DROP CONSTRAINT sessions_pkey CASCADE, ADD PRIMARY KEY (tenant_id, session_id, owned_by);
DROP INDEX sessions_open_in_line, sessions_by_line;
CREATE UNIQUE INDEX sessions_open_in_line ON sessions (tenant_id, root_id, owned_by) WHERE status = 'open';
CREATE INDEX sessions_by_line ON sessions (tenant_id, root_id, owned_by, session_ref);
CREATE INDEX sessions_by_owner ON sessions (tenant_id, owned_by, session_ref);

ALTER TABLE notes ADD COLUMN owned_by text;
UPDATE notes n SET owned_by = s.owned_by FROM sessions s WHERE s.tenant_id = n.tenant_id AND s.session_id = n.session_id;
ALTER TABLE notes ALTER COLUMN owned_by SET NOT NULL, DROP CONSTRAINT notes_pkey,
    ADD PRIMARY KEY (tenant_id, session_id, owned_by, note_id),
    ADD FOREIGN KEY (tenant_id, session_id, owned_by) REFERENCES sessions ON DELETE CASCADE;

-- Runs have the owner of their session.
UPDATE runs r SET user_id = s.user_id, agent_id = CASE WHEN s.user_id IS NULL THEN s.agent_id ELSE r.agent_id END
FROM sessions s
WHERE s.tenant_id = r.tenant_id AND s.session_id = r.session_id AND s.owned_by <> owner_of(r.user_id, r.agent_id);
ALTER TABLE runs ADD COLUMN owned_by text;
UPDATE runs SET owned_by = owner_of(user_id, agent_id);
ALTER TABLE runs ALTER COLUMN owned_by SET NOT NULL, ADD CHECK (owned_by = owner_of(user_id, agent_id)),
    DROP CONSTRAINT runs_pkey CASCADE,
    ADD PRIMARY KEY (tenant_id, run_id, owned_by),
    ADD FOREIGN KEY (tenant_id, session_id, owned_by) REFERENCES sessions ON DELETE CASCADE;
DROP INDEX runs_by_session;
CREATE INDEX runs_by_session ON runs (tenant_id, session_id, owned_by, run_ref);
CREATE INDEX runs_by_owner ON runs (tenant_id, owned_by, run_ref);

ALTER TABLE turns ADD COLUMN owned_by text;
UPDATE turns t SET owned_by = r.owned_by FROM runs r WHERE r.tenant_id = t.tenant_id AND r.run_id = t.run_id;
ALTER TABLE turns ALTER COLUMN owned_by SET NOT NULL, DROP CONSTRAINT turns_pkey,
    ADD PRIMARY KEY (tenant_id, run_id, owned_by, number),
    ADD FOREIGN KEY (tenant_id, run_id, owned_by) REFERENCES runs ON DELETE CASCADE;

ALTER TABLE turn_states ADD COLUMN owned_by text;
UPDATE turn_states t SET owned_by = s.owned_by FROM sessions s
WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id;
ALTER TABLE turn_states ALTER COLUMN owned_by SET NOT NULL, DROP CONSTRAINT turn_states_pkey,
    ADD PRIMARY KEY (tenant_id, session_id, owned_by),
    ADD FOREIGN KEY (tenant_id, session_id, owned_by) REFERENCES sessions ON DELETE CASCADE;

ALTER TABLE tool_calls ADD COLUMN owned_by text;
UPDATE tool_calls t SET owned_by = r.owned_by FROM runs r WHERE r.tenant_id = t.tenant_id AND r.run_id = t.run_id;
ALTER TABLE tool_calls ALTER COLUMN owned_by SET NOT NULL, DROP CONSTRAINT tool_calls_pkey,
    ADD PRIMARY KEY (tenant_id, run_id, owned_by, number),
    ADD FOREIGN KEY (tenant_id, run_id, owned_by) REFERENCES runs ON DELETE CASCADE;

-- State: of its run or session, which need not exist when the first key is written.
DROP POLICY tenant_and_user ON state_owners;
DROP POLICY tenant_and_user ON state;
ALTER TABLE state_owners ADD COLUMN owned_by text;
UPDATE state_owners o SET owned_by = COALESCE('user:' || o.user_id, CASE o.owner_kind
    WHEN 'run' THEN (SELECT r.owned_by FROM runs r WHERE r.tenant_id = o.tenant_id AND r.run_id = o.owner_id)
    ELSE (SELECT s.owned_by FROM sessions s WHERE s.tenant_id = o.tenant_id AND s.session_id = o.owner_id) END, 'tenant');
ALTER TABLE state ADD COLUMN owned_by text;
UPDATE state t SET owned_by = o.owned_by FROM state_owners o
WHERE o.tenant_id = t.tenant_id AND o.owner_kind = t.owner_kind AND o.owner_id = t.owner_id;
ALTER TABLE state_owners ALTER COLUMN owned_by SET NOT NULL, DROP COLUMN user_id,
    DROP CONSTRAINT state_owners_pkey CASCADE, ADD PRIMARY KEY (tenant_id, owner_kind, owner_id, owned_by);
ALTER TABLE state ALTER COLUMN owned_by SET NOT NULL, DROP COLUMN user_id, DROP CONSTRAINT state_pkey,
    ADD PRIMARY KEY (tenant_id, owner_kind, owner_id, owned_by, key),
    ADD FOREIGN KEY (tenant_id, owner_kind, owner_id, owned_by) REFERENCES state_owners ON DELETE CASCADE;
CREATE INDEX state_owners_by_owner ON state_owners (tenant_id, owned_by);

-- Items: by generation, so that every writer keeps the rule. A redacted item names nobody.
ALTER TABLE items DISABLE TRIGGER USER;
ALTER TABLE items ADD COLUMN owned_by text NOT NULL GENERATED ALWAYS AS (CASE
    WHEN scope = 'tenant' THEN 'tenant'
    WHEN scope = 'agent' AND kind IN ('fact', 'procedure', 'entry') THEN COALESCE('agent:' || agent_id, 'tenant')
    ELSE COALESCE('user:' || user_id, 'agent:' || agent_id, 'tenant') END) STORED;
ALTER TABLE items DROP CONSTRAINT items_tenant_id_kind_source_ref_key,
    ADD CONSTRAINT items_by_ref UNIQUE (tenant_id, owned_by, kind, source_ref);
UPDATE items i SET thread = session_thread(COALESCE((
    SELECT s.owned_by FROM sessions s WHERE s.tenant_id = i.tenant_id AND s.session_id = substr(i.thread, 9)),
    owner_of(i.user_id, i.agent_id)), substr(i.thread, 9))
WHERE i.thread LIKE 'session:%';
ALTER TABLE items ENABLE TRIGGER USER;

-- A body belongs to the owner of its item; the original of a document to the tenant.
ALTER TABLE payloads ADD COLUMN owned_by text NOT NULL DEFAULT 'tenant';
UPDATE payloads p SET owned_by = i.owned_by FROM items i WHERE i.tenant_id = p.tenant_id AND i.item_id = p.item_id;
ALTER TABLE payloads ALTER COLUMN owned_by DROP DEFAULT;

-- A vector's owner is the whole of what may be recalled together: a session with its own owner.
DROP POLICY tenant_and_user ON vectors;
DROP INDEX vectors_by_owner;
ALTER TABLE vectors DROP COLUMN owner;
ALTER TABLE vectors ADD COLUMN owner text GENERATED ALWAYS AS (CASE scope
    WHEN 'user' THEN 'user:' || user_id WHEN 'agent' THEN 'agent:' || agent_id
    WHEN 'session' THEN 'session:' || COALESCE('user:' || user_id, 'agent:' || agent_id, 'tenant') || chr(31) || session_id
    ELSE 'tenant:' END) STORED;
CREATE INDEX vectors_by_owner ON vectors (tenant_id, model_id, owner, kind, event_time) WHERE live;

-- Choices were drawn, and outcomes given, for somebody.
ALTER TABLE choices ADD COLUMN owned_by text;
UPDATE choices c SET owned_by = COALESCE(
    (SELECT s.owned_by FROM sessions s WHERE s.tenant_id = c.tenant_id AND s.session_id = c.session_id),
    (SELECT r.owned_by FROM runs r WHERE r.tenant_id = c.tenant_id AND r.run_id = c.run_id), owner_of(NULL, c.agent_id));
ALTER TABLE choices ALTER COLUMN owned_by SET NOT NULL;
ALTER TABLE outcomes ADD COLUMN owned_by text;
UPDATE outcomes o SET owned_by = COALESCE(
    (SELECT c.owned_by FROM choices c WHERE c.tenant_id = o.tenant_id AND c.choice_id = o.choice_id), 'tenant');
ALTER TABLE outcomes ALTER COLUMN owned_by SET NOT NULL, DROP CONSTRAINT outcomes_pkey,
    ADD PRIMARY KEY (tenant_id, outcome_id, owned_by);

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['items', 'payloads', 'sessions', 'notes', 'runs', 'turns', 'turn_states',
            'tool_calls', 'state_owners', 'state', 'choices', 'outcomes'] LOOP
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', table_name);
    END LOOP;
    FOREACH table_name IN ARRAY ARRAY['state_owners', 'state'] LOOP
        EXECUTE format(
            'CREATE POLICY tenant_and_user ON %I TO recordari_app, recordari_readonly
                 USING (tenant_id = current_tenant() AND is_shown(owned_by))
                 WITH CHECK (tenant_id = current_tenant() AND is_shown(owned_by))', table_name);
    END LOOP;
END $$;
CREATE POLICY tenant_and_user ON vectors TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant() AND (
        left(owner, 5) <> 'user:' OR owner = 'user:' || current_app_user() OR current_app_user() IS NULL))
    WITH CHECK (tenant_id = current_tenant() AND (
        left(owner, 5) <> 'user:' OR owner = 'user:' || current_app_user() OR current_app_user() IS NULL));

-- A forgotten item is recognised by its reference or content, each of its own owner: another's is not lost with it.
CREATE OR REPLACE FUNCTION item_hashes(salt bytea, item items) RETURNS bytea[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY[
        erasure_hash(salt, 'ref', item.kind, recordari.item_owner(item.kind, item.scope, item.user_id, item.agent_id),
            item.source_ref),
        erasure_hash(salt, 'content', item.kind,
            CASE WHEN item.kind = 'document_chunk' THEN '' ELSE item.scope || ':' || COALESCE(
                CASE item.scope WHEN 'user' THEN item.user_id WHEN 'agent' THEN item.agent_id
                    WHEN 'session' THEN recordari.owner_of(item.user_id, item.agent_id) || chr(31) || item.session_id END,
                '') END,
            CASE WHEN item.kind IN ('fact', 'document_chunk') THEN '' ELSE extract(epoch FROM item.event_time)::text END,
            encode(item.content_hash, 'hex'))]
$$;
