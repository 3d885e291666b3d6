-- Goes before a restored dump, in its transaction: the schemas that migration made, and that hold no tenant, make room.
SET client_min_messages = warning;
DO $$
BEGIN
    IF to_regclass('recollect.tenants') IS NOT NULL THEN
        SET LOCAL ROLE recollect_owner;
        LOCK TABLE recollect.tenants;  -- nobody becomes a tenant from here on
        IF EXISTS (SELECT FROM recollect.tenants) THEN
            RAISE EXCEPTION 'the database holds tenants';
        END IF;
        RESET ROLE;
    END IF;
END $$;
DROP SCHEMA IF EXISTS recollect, recollect_queue CASCADE;
