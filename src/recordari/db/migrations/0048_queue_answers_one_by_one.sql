-- As before, but the queue is asked for each answer apart: so no plan reads all of the queue, whatever the statistics say.
CREATE OR REPLACE FUNCTION outdate_answers() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fact items;
    stale uuid;
BEGIN
    IF TG_OP = 'INSERT' THEN fact := NEW; ELSE fact := OLD; END IF;
    FOR stale IN
        SELECT a.answer_id FROM question_answers a WHERE a.tenant_id = fact.tenant_id AND a.user_id = fact.user_id
    LOOP
        INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) SELECT 'question', fact.tenant_id, stale
        WHERE NOT EXISTS (
            SELECT FROM recordari_queue.outbox o
            WHERE o.tenant_id = fact.tenant_id AND o.topic = 'question' AND o.ref = stale AND o.attempts = 0);
    END LOOP;
    RETURN NULL;
END $$;
