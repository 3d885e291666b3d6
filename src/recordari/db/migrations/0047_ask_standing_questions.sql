-- Standing questions: a tenant asks once, and the answer is kept for each user, like the profile.

CREATE TABLE questions (
    tenant_id uuid NOT NULL REFERENCES tenants,
    question_id uuid NOT NULL,
    name text NOT NULL,
    agent_id text,                      -- NULL: of every agent
    question text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, question_id),
    UNIQUE NULLS NOT DISTINCT (tenant_id, name, agent_id)
);

CREATE TABLE question_answers (
    tenant_id uuid NOT NULL,
    answer_id uuid NOT NULL,
    question_id uuid NOT NULL,
    user_id text NOT NULL,
    content text NOT NULL,
    sources uuid[] NOT NULL,            -- the items that it rests on
    writer text NOT NULL,
    made_at timestamptz NOT NULL,
    version bigint NOT NULL,            -- of the memory in which it was found; another one: it is out of date
    PRIMARY KEY (tenant_id, answer_id),
    UNIQUE (tenant_id, question_id, user_id),
    FOREIGN KEY (tenant_id, question_id) REFERENCES questions ON DELETE CASCADE
);
CREATE INDEX question_answers_of_user ON question_answers (tenant_id, user_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON questions, question_answers TO recordari_app, recordari_retention;
GRANT SELECT ON questions, question_answers TO recordari_readonly;

ALTER TABLE questions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON questions TO recordari_app, recordari_tenant, recordari_retention, recordari_readonly
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
ALTER TABLE question_answers ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_and_user ON question_answers TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant() AND user_id = current_app_user())
    WITH CHECK (tenant_id = current_tenant() AND user_id = current_app_user());
CREATE POLICY tenant ON question_answers TO recordari_tenant, recordari_retention
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

-- A fact of a user that comes, changes or ends lets the worker write the user's answers again, once for many changes.
CREATE FUNCTION outdate_answers() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fact items;
BEGIN
    IF TG_OP = 'INSERT' THEN fact := NEW; ELSE fact := OLD; END IF;
    INSERT INTO recordari_queue.outbox (topic, tenant_id, ref)
    SELECT 'question', a.tenant_id, a.answer_id FROM question_answers a
    WHERE a.tenant_id = fact.tenant_id AND a.user_id = fact.user_id AND NOT EXISTS (
        SELECT FROM recordari_queue.outbox o
        WHERE o.tenant_id = a.tenant_id AND o.topic = 'question' AND o.ref = a.answer_id AND o.attempts = 0);
    RETURN NULL;
END $$;
CREATE TRIGGER items_outdate_answers_insert AFTER INSERT ON items FOR EACH ROW
    WHEN (NEW.kind IN ('fact', 'procedure') AND NEW.scope = 'user') EXECUTE FUNCTION outdate_answers();
CREATE TRIGGER items_outdate_answers_update
    AFTER UPDATE OF content, pinned_at, invalid_at, superseded_by, archived_at, deleted_at, anonymized_at
    ON items FOR EACH ROW
    WHEN (OLD.kind IN ('fact', 'procedure') AND OLD.scope = 'user') EXECUTE FUNCTION outdate_answers();

-- Forgotten: an answer that rests on it keeps nothing of it, whatever kind of item it was.
CREATE FUNCTION clear_answers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE question_answers a SET content = '', sources = '{}', version = -1
    WHERE a.tenant_id = OLD.tenant_id AND a.user_id = OLD.user_id AND OLD.item_id = ANY(a.sources);
    RETURN NULL;
END $$;
CREATE TRIGGER items_clear_answers_update AFTER UPDATE OF deleted_at, anonymized_at ON items FOR EACH ROW
    WHEN (OLD.user_id IS NOT NULL AND (NEW.deleted_at IS NOT NULL OR NEW.anonymized_at IS NOT NULL))
    EXECUTE FUNCTION clear_answers();
CREATE TRIGGER items_clear_answers_delete AFTER DELETE ON items FOR EACH ROW
    WHEN (OLD.user_id IS NOT NULL) EXECUTE FUNCTION clear_answers();

SELECT sample_no_text();
SELECT expect_full_tenants();
