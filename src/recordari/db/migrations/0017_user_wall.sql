-- Row-level security by user, on every table that holds a user's things. It is closed: a transaction that is bound to no
-- user sees no user's row, and one that is bound to a user sees that user's and those of nobody in particular.
--
-- Administrators and jobs act for all users of a tenant, under the role recordari_tenant, which a transaction takes when it
-- begins. Retention has had its own role from the start.

-- The users that a key may name: empty for none, NULL for any.
ALTER TABLE api_keys ADD COLUMN users text[],
    ADD CONSTRAINT api_keys_users CHECK (users IS NULL OR (role = 'agent' AND user_id IS NULL));

CREATE OR REPLACE FUNCTION is_shown(owned_by text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN left(owned_by, 5) <> 'user:' OR owned_by = 'user:' || current_app_user();

-- Whether the transaction may write that user's own row. Another's is known already where something of an agent names it.
CREATE FUNCTION acts_for(who text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN who = current_app_user() OR current_user = 'recordari_tenant';

-- Names are followed from item to item in every recall. So a mention says itself who sees its item, and the index says it too.
ALTER TABLE mentions NO FORCE ROW LEVEL SECURITY, ADD COLUMN user_id text;  -- NULL: not one user's alone
ALTER TABLE items NO FORCE ROW LEVEL SECURITY;
UPDATE mentions m SET user_id = i.user_id FROM items i
WHERE i.tenant_id = m.tenant_id AND i.item_id = m.item_id AND i.scope IN ('user', 'session') AND i.user_id IS NOT NULL;
ALTER TABLE items FORCE ROW LEVEL SECURITY;
ALTER TABLE mentions FORCE ROW LEVEL SECURITY, DROP CONSTRAINT mentions_pkey,
    ADD PRIMARY KEY (tenant_id, entity_id, item_id) INCLUDE (user_id);

-- What each table's rows say of their user; a row whose rule is not true is not there.
CREATE FUNCTION pg_temp.wall(table_name text, rule text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP POLICY IF EXISTS tenant_and_user ON %I', table_name);
    EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', table_name);
    EXECUTE format(
        'CREATE POLICY tenant_and_user ON %I TO recordari_app, recordari_readonly
             USING (tenant_id = current_tenant() AND (%s)) WITH CHECK (tenant_id = current_tenant() AND (%s))',
        table_name, rule, rule);
    EXECUTE format(
        'CREATE POLICY tenant ON %I TO recordari_tenant, recordari_retention
             USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant())', table_name);
END $$;

-- By owner.
SELECT pg_temp.wall(name, 'is_shown(owned_by)') FROM unnest(ARRAY['sessions', 'notes', 'runs', 'turns', 'turn_states',
    'tool_calls', 'state_owners', 'state', 'choices', 'outcomes']) AS name;

-- By user. A key is looked up before its user is known, which is no work of the application's role.
SELECT pg_temp.wall(name, 'user_id = current_app_user()') FROM unnest(ARRAY['users', 'erasures']) AS name;
SELECT pg_temp.wall(name, 'user_id IS NULL OR user_id = current_app_user()') FROM unnest(ARRAY['profiles', 'mentions']) AS name;
SELECT pg_temp.wall('api_keys', 'user_id = current_app_user()');
SELECT pg_temp.wall('entries', 'scope <> ''user'' OR owner_id = current_app_user()');

-- By scope: what an agent or the tenant knows is shown to all of them, whoever said it.
SELECT pg_temp.wall('items', 'scope NOT IN (''user'', ''session'') OR user_id = current_app_user()
    OR (scope = ''session'' AND user_id IS NULL)');
-- For vectors the rule uses only a column of vectors_by_owner, so that counting in it need not read the rows; and it names the
-- user once for all of them, because thousands are compared in one recall.
SELECT pg_temp.wall('vectors', 'owner = (SELECT ''user:'' || current_app_user())
    OR starts_with(owner, (SELECT ''session:user:'' || current_app_user() || chr(31)))
    OR (left(owner, 5) <> ''user:'' AND left(owner, 13) <> ''session:user:'')');

-- By the item that a row is about. An agent's episode may have a body although it was written for a user.
SELECT pg_temp.wall(name, format('EXISTS (SELECT FROM items i WHERE i.tenant_id = current_tenant() AND i.item_id = %I.item_id)',
    name)) FROM unnest(ARRAY['access', 'evidence', 'feedback', 'holds', 'proposal_inputs']) AS name;
SELECT pg_temp.wall('payloads', 'is_shown(owned_by) OR EXISTS (
    SELECT FROM items i WHERE i.tenant_id = current_tenant() AND i.item_id = payloads.item_id AND i.scope = ''agent'')');
SELECT pg_temp.wall('profile_changes', 'EXISTS (
    SELECT FROM profiles p WHERE p.tenant_id = current_tenant() AND p.profile_id = profile_changes.profile_id)');

-- What an agent knows may rest on the words of a user. Who corrects it for another user keeps that link without seeing the
-- source, which is locked as the owner of the tables.
CREATE POLICY sources ON items FOR SELECT TO recordari_owner USING (tenant_id = current_tenant());
CREATE POLICY sources_locked ON items FOR UPDATE TO recordari_owner USING (tenant_id = current_tenant());
ALTER FUNCTION keep_source() SECURITY DEFINER SET search_path = recordari, pg_temp;

-- The audit names users. The application adds to it; only administrators read it.
DROP POLICY tenant ON audit;
CREATE POLICY append ON audit FOR INSERT TO recordari_app WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant ON audit TO recordari_tenant, recordari_retention, recordari_readonly
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
