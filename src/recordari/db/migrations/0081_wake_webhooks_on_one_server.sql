-- A node of a cluster does not notify: nobody listens there, and a transaction of several nodes that has notified cannot be prepared.
CREATE OR REPLACE FUNCTION wake_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    tenant uuid := recordari.current_tenant();
    told text := COALESCE(current_setting('app.told_webhooks', true), '');
    news text[];
    wanting uuid;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM recordari.webhooks w WHERE w.tenant_id = tenant) THEN
        RETURN NULL;
    END IF;
    news := ARRAY(SELECT DISTINCT e.type FROM new_events e WHERE strpos(told, concat(tenant, ' ', e.type, ',')) = 0);
    IF news = '{}' THEN
        RETURN NULL;
    END IF;
    FOR wanting IN
        SELECT w.webhook_id FROM recordari.webhooks w
        WHERE w.tenant_id = tenant AND w.is_active AND w.failing_since IS NULL AND (w.types = '{}' OR w.types && news)
    LOOP
        INSERT INTO recordari_queue.outbox (topic, tenant_id, ref) VALUES ('webhook', tenant, wanting);
    END LOOP;
    IF FOUND AND TG_TABLE_NAME = 'events' THEN
        PERFORM pg_notify('recordari_outbox', 'database webhook');
    END IF;
    PERFORM set_config(
        'app.told_webhooks', told || (SELECT string_agg(concat(tenant, ' ', n, ','), '') FROM unnest(news) AS n), true);
    RETURN NULL;
END $$;
