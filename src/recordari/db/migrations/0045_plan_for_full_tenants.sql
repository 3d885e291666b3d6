-- Plans that stay good while the planner knows little: after an import, before the next ANALYZE.

-- A table that was analysed while it had a row or two looks as if every tenant had one row in it. Then the index of the
-- tenant alone is as good to the planner as the one that finds the row, and a join reads the whole tenant for each row. So
-- the planner is to expect a thousand rows of each tenant, wherever it has not counted them. A migration that adds a table
-- ends with SELECT expect_full_tenants().
CREATE FUNCTION expect_full_tenants() RETURNS void LANGUAGE plpgsql SET search_path = recordari, pg_temp AS $$
DECLARE
    relation regclass;
BEGIN
    FOR relation IN
        SELECT c.oid::regclass FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attname = 'tenant_id' AND c.relkind IN ('r', 'p') AND c.oid <> 'recordari.tenants'::regclass
            AND c.relnamespace IN ('recordari'::regnamespace, 'recordari_queue'::regnamespace)
            AND a.attoptions IS DISTINCT FROM '{n_distinct=-0.001}'
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN tenant_id SET (n_distinct = -0.001)', relation);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION expect_full_tenants() FROM PUBLIC;
SELECT expect_full_tenants();

-- As before, but once for each type of event in a transaction: what forgets hundreds of items tells of each, and each had
-- put every webhook to work again.
CREATE OR REPLACE FUNCTION wake_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    tenant uuid := recordari.current_tenant();
    told text := COALESCE(current_setting('app.told_webhooks', true), '');
    news text[];
BEGIN
    IF NOT EXISTS (SELECT FROM recordari.webhooks w WHERE w.tenant_id = tenant) THEN
        RETURN NULL;
    END IF;
    news := ARRAY(SELECT DISTINCT e.type FROM new_events e WHERE strpos(told, concat(tenant, ' ', e.type, ',')) = 0);
    IF news = '{}' THEN
        RETURN NULL;
    END IF;
    INSERT INTO recordari_queue.outbox (topic, tenant_id, ref)
    SELECT 'webhook', w.tenant_id, w.webhook_id FROM recordari.webhooks w
    WHERE w.tenant_id = tenant AND w.is_active AND w.failing_since IS NULL AND (w.types = '{}' OR w.types && news);
    IF FOUND THEN
        PERFORM pg_notify('recordari_outbox', 'database webhook');
    END IF;
    PERFORM set_config(
        'app.told_webhooks', told || (SELECT string_agg(concat(tenant, ' ', n, ','), '') FROM unnest(news) AS n), true);
    RETURN NULL;
END $$;
