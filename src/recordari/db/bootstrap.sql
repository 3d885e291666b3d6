-- Roles, extensions and schemas of Recordari. Run once per database by a role that may create them; safe to run again.
-- These roles are groups: login roles become members of recordari_app (recordari db init does that for you).
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY[
        'recordari_owner', 'recordari_app', 'recordari_tenant', 'recordari_retention', 'recordari_readonly', 'recordari_search'
    ] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role_name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOBYPASSRLS', role_name);
        END IF;
    END LOOP;
    -- Administrators and jobs act for all users of a tenant; else they may do what the application may.
    GRANT recordari_app TO recordari_tenant;
    -- The role that runs this must be able to act as the owner, to migrate; a superuser already can.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT recordari_owner, recordari_search TO %I', current_user);
    END IF;
END $$;

CREATE EXTENSION IF NOT EXISTS vector;
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS btree_gin;

CREATE SCHEMA IF NOT EXISTS recordari AUTHORIZATION recordari_owner;
CREATE SCHEMA IF NOT EXISTS recordari_queue AUTHORIZATION recordari_owner;
GRANT USAGE ON SCHEMA recordari TO recordari_app, recordari_retention, recordari_readonly, recordari_search;
GRANT USAGE ON SCHEMA recordari_queue TO recordari_app, recordari_retention;

-- The text match operator is not marked leakproof, so that under row-level security its index would not be used. It
-- reveals nothing but an error-free boolean; where we may, mark it (elsewhere recordari_search does the text search).
DO $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        ALTER FUNCTION pg_catalog.ts_match_vq(tsvector, tsquery) LEAKPROOF;
    END IF;
END $$;
