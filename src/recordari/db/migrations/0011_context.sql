-- Profiles of users and agents, and the changes that make them stale.

CREATE TABLE profiles (
    tenant_id uuid NOT NULL REFERENCES tenants,
    profile_id uuid NOT NULL,
    user_id text,
    agent_id text,
    content text NOT NULL,
    facts integer NOT NULL,
    writer text NOT NULL,
    made_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, profile_id),
    CHECK ((user_id IS NULL) <> (agent_id IS NULL))
);
CREATE UNIQUE INDEX profiles_of_user ON profiles (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE UNIQUE INDEX profiles_of_agent ON profiles (tenant_id, agent_id) WHERE agent_id IS NOT NULL;

-- Facts changed since the profile was made. Only ever appended to and struck off, so that writers never wait for it.
CREATE TABLE profile_changes (
    tenant_id uuid NOT NULL,
    change_id bigint GENERATED ALWAYS AS IDENTITY,
    profile_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, change_id),
    FOREIGN KEY (tenant_id, profile_id) REFERENCES profiles ON DELETE CASCADE
);
CREATE INDEX profile_changes_by_profile ON profile_changes (tenant_id, profile_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON profiles, profile_changes TO recordari_app, recordari_retention;
GRANT SELECT ON profiles, profile_changes TO recordari_readonly;

-- A user's profile is shown to that user only; a job or an administrator has no user and sees the tenant's.
ALTER TABLE profiles ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_and_user ON profiles TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant()
        AND (user_id IS NULL OR current_app_user() IS NULL OR user_id = current_app_user()))
    WITH CHECK (tenant_id = current_tenant()
        AND (user_id IS NULL OR current_app_user() IS NULL OR user_id = current_app_user()));
CREATE POLICY tenant ON profiles TO recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
ALTER TABLE profile_changes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON profile_changes TO recordari_app, recordari_retention, recordari_readonly
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

-- A fact that comes, changes or ends makes its owner's profile stale in the same transaction.
CREATE FUNCTION outdate_profile() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fact items;
    stale uuid;
BEGIN
    IF TG_OP = 'INSERT' THEN fact := NEW; ELSE fact := OLD; END IF;
    SELECT p.profile_id INTO stale FROM profiles p
    WHERE p.tenant_id = fact.tenant_id AND (
        (fact.scope = 'user' AND p.user_id = fact.user_id) OR (fact.scope = 'agent' AND p.agent_id = fact.agent_id));
    IF stale IS NOT NULL THEN
        INSERT INTO profile_changes (tenant_id, profile_id) VALUES (fact.tenant_id, stale);
        INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) SELECT 'profile', fact.tenant_id, stale
        WHERE NOT EXISTS (
            SELECT FROM recordari_queue.outbox o
            WHERE o.tenant_id = fact.tenant_id AND o.topic = 'profile' AND o.ref = stale AND o.attempts = 0);
        IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND NEW.anonymized_at IS NOT NULL) THEN
            -- Forgotten: the stored copy must not show it either.
            UPDATE profiles p SET content = '', facts = 0 WHERE p.tenant_id = fact.tenant_id AND p.profile_id = stale;
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER items_outdate_profile_insert AFTER INSERT ON items FOR EACH ROW
    WHEN (NEW.kind = 'fact' AND NEW.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
CREATE TRIGGER items_outdate_profile_update
    AFTER UPDATE OF content, category, confidence, pinned_at, invalid_at, superseded_by, archived_at, deleted_at, anonymized_at
    ON items FOR EACH ROW
    WHEN (OLD.kind = 'fact' AND OLD.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
CREATE TRIGGER items_outdate_profile_delete AFTER DELETE ON items FOR EACH ROW
    WHEN (OLD.kind = 'fact' AND OLD.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
