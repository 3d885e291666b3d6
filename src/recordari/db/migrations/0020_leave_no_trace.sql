-- Answers are kept by the transaction that writes, and lose their text with what they show; reasons in the audit and the
-- planner's statistics keep nothing that was erased.

-- A key has its answer or nothing: there is no claim any more. They last a day, so the old ones simply go.
TRUNCATE answers;
ALTER TABLE answers DROP COLUMN claim, DROP COLUMN claimed_at;
ALTER TABLE answers ADD COLUMN shows text[] NOT NULL DEFAULT '{}';  -- ids of what the answer shows
COMMENT ON COLUMN answers.sealed IS 'NULL once something that the answer showed was forgotten';
GRANT SELECT, UPDATE ON answers TO recordari_retention;

-- A reason is free text about its subject, and goes with it. The application cannot change the audit by itself.
CREATE FUNCTION forget_reasons(kind text, ids text[]) RETURNS bigint LANGUAGE sql SECURITY DEFINER
    SET search_path = recordari, pg_temp AS $$
    WITH changed AS (
        UPDATE audit a SET reason = NULL
        WHERE a.tenant_id = current_tenant() AND a.subject_kind = kind AND a.subject_id = ANY(ids) AND a.reason IS NOT NULL
        RETURNING 1
    )
    SELECT count(*) FROM changed
$$;
REVOKE ALL ON FUNCTION forget_reasons(text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_reasons(text, text[]) TO recordari_retention;

-- As before, and what an erased user gave as a reason goes too.
CREATE OR REPLACE FUNCTION pseudonymise_audit(ids text[]) RETURNS bigint LANGUAGE sql SECURITY DEFINER
    SET search_path = recordari, pg_temp AS $$
    WITH names AS (
        SELECT id, 'erased:' || left(encode(erasure_hash(t.salt, 'user', id), 'hex'), 32) AS hash
        FROM unnest(ids) AS id, tenants t WHERE t.tenant_id = current_tenant()
    ), changed AS (
        UPDATE audit a SET
            subject_id = COALESCE((SELECT hash FROM names WHERE id = a.subject_id), a.subject_id),
            actor = COALESCE((SELECT split_part(a.actor, ':', 1) || ':' || hash FROM names
                WHERE a.actor = split_part(a.actor, ':', 1) || ':' || id), (SELECT hash FROM names WHERE id = a.actor), a.actor),
            reason = CASE WHEN a.action = 'session.close' AND a.reason <> ALL(ids) THEN a.reason END,
            details = (SELECT COALESCE(jsonb_object_agg(e.key, COALESCE(
                (SELECT to_jsonb(hash) FROM names WHERE to_jsonb(id) = e.value), e.value)), '{}') FROM jsonb_each(a.details) e)
        WHERE a.tenant_id = current_tenant() AND (
            a.subject_id = ANY(ids) OR a.actor = ANY(ids) OR a.reason = ANY(ids)
            OR substr(a.actor, strpos(a.actor, ':') + 1) = ANY(ids)
            OR EXISTS (SELECT FROM jsonb_each_text(a.details) e WHERE e.value = ANY(ids)))
        RETURNING 1
    )
    SELECT count(*) FROM changed
$$;

-- The planner keeps samples of a column's values (pg_stats), also after the rows are gone. No plan of ours needs them for
-- text, so none are taken. What is a word of ours, or an id by which large tables are read, has them as usual. A migration
-- that adds a column of text ends with SELECT sample_no_text().
CREATE FUNCTION sample_no_text() RETURNS void LANGUAGE plpgsql SET search_path = recordari, pg_temp AS $$
DECLARE
    sampled text[] := ARRAY['kind', 'scope', 'tier', 'trust', 'status', 'type', 'role', 'plan', 'language', 'model_id',
        'embedding_model', 'embedding_target', 'owner_kind', 'currency', 'media_type', 'opinion', 'close_reason', 'engine',
        'agent_type', 'task_type', 'subject_kind', 'action'];
    item_ids text[] := ARRAY['user_id', 'agent_id', 'session_id', 'run_id', 'thread'];
    found record;
BEGIN
    FOR found IN
        SELECT c.oid::regclass AS relation, c.relkind, a.attname, a.attnum
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attnum > 0 AND NOT a.attisdropped
            AND (c.relnamespace = 'recordari'::regnamespace
                OR c.relnamespace = 'recordari_queue'::regnamespace AND a.attname = 'args')
            AND t.typname IN ('text', '_text', 'varchar', 'json', 'jsonb', 'tsvector', 'bytea')
            AND (c.relkind IN ('r', 'p') AND a.attname <> ALL(sampled)
                    AND NOT (c.relname IN ('items', 'vectors') AND a.attname = ANY(item_ids))
                OR c.relkind = 'i' AND EXISTS (
                    SELECT FROM pg_index x WHERE x.indexrelid = c.oid AND x.indkey[a.attnum - 1] = 0))
    LOOP
        EXECUTE format(
            CASE found.relkind WHEN 'i' THEN 'ALTER INDEX %s ALTER COLUMN %s SET STATISTICS 0'
                ELSE 'ALTER TABLE %s ALTER COLUMN %s SET STATISTICS 0' END,
            found.relation, CASE found.relkind WHEN 'i' THEN found.attnum::text ELSE quote_ident(found.attname) END);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION sample_no_text() FROM PUBLIC;
SELECT sample_no_text();

-- Sample the ids of items anew, because an erased user is in the old samples. An empty table keeps its old ones, which
-- PostgreSQL 18 can drop.
CREATE FUNCTION renew_samples() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = recordari, pg_temp AS $$
DECLARE
    table_name text;
    column_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['items', 'vectors'] LOOP
        IF to_regproc('pg_catalog.pg_clear_attribute_stats') IS NOT NULL THEN
            FOR column_name IN
                SELECT a.attname FROM pg_attribute a WHERE a.attrelid = format('recordari.%I', table_name)::regclass
                    AND a.attname IN ('user_id', 'session_id', 'run_id', 'thread')
            LOOP
                EXECUTE format('SELECT pg_clear_attribute_stats(%L, %L, %L, false)', 'recordari', table_name, column_name);
            END LOOP;
        END IF;
        EXECUTE format('ANALYZE %I', table_name);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION renew_samples() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION renew_samples() TO recordari_retention;
