-- Writing where nobody listens costs less: whether the tenant has any webhook is looked at first, which is one step in an index.
CREATE OR REPLACE FUNCTION wake_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM recordari.webhooks w WHERE w.tenant_id = recordari.current_tenant()) THEN
        RETURN NULL;
    END IF;
    INSERT INTO recordari_queue.outbox (topic, tenant_id, ref)
    SELECT 'webhook', w.tenant_id, w.webhook_id FROM recordari.webhooks w
    WHERE w.tenant_id IN (SELECT tenant_id FROM told) AND w.is_active AND w.failing_since IS NULL
        AND (w.types = '{}' OR w.types && ARRAY(SELECT type FROM told));
    IF FOUND THEN
        PERFORM pg_notify('recordari_outbox', 'database webhook');
    END IF;
    RETURN NULL;
END $$;
