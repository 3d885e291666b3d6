-- Runs before a restored dump, in its transaction: drops the schemas that migration made, unless they hold a tenant.
SET client_min_messages = warning;
DO $$
BEGIN
    IF to_regclass('recordari.tenants') IS NOT NULL THEN
        SET LOCAL ROLE recordari_owner;
        LOCK TABLE recordari.tenants;  -- no tenant is added from here on
        IF EXISTS (SELECT 1 FROM recordari.tenants) THEN
            RAISE EXCEPTION 'the database holds tenants';
        END IF;
        RESET ROLE;
    END IF;
END $$;
DROP SCHEMA IF EXISTS recordari, recordari_queue CASCADE;
