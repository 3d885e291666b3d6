-- Functions that act as their owner name the tenant: on a cluster they run where its rows are. Another tenant than that of the
-- transaction is refused.

CREATE FUNCTION refuse_other_tenant(of_tenant uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF of_tenant IS DISTINCT FROM recordari.current_tenant() THEN
        RAISE EXCEPTION 'the transaction is bound to another tenant' USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- Whether this database is a node of a cluster: its tables are divided by tenant.
CREATE FUNCTION is_divided() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = 'recordari.tenants'::regclass AND p.proname = 'citus_truncate_trigger')
$$;

DROP FUNCTION forget_reasons(text, text[]);
CREATE FUNCTION forget_reasons(of_tenant uuid, items uuid[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = recordari, pg_temp AS $$
DECLARE
    proposals text[];
BEGIN
    PERFORM recordari.refuse_other_tenant(of_tenant);
    SELECT array_agg(DISTINCT p.proposal_id::text) INTO proposals FROM recordari.proposal_inputs p
    WHERE p.tenant_id = of_tenant AND p.item_id = ANY(items);
    UPDATE recordari.audit a SET reason = NULL
    WHERE a.tenant_id = of_tenant AND a.subject_kind = 'item' AND a.subject_id = ANY(items::text[]) AND a.reason IS NOT NULL;
    UPDATE recordari.audit a SET reason = NULL
    WHERE a.tenant_id = of_tenant AND a.subject_kind = 'proposal' AND a.subject_id = ANY(proposals) AND a.reason IS NOT NULL;
END $$;
REVOKE ALL ON FUNCTION forget_reasons(uuid, uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_reasons(uuid, uuid[]) TO recordari_retention;
-- It looks for proposals as the owner of the tables.
CREATE POLICY forget_reasons ON proposal_inputs FOR SELECT TO recordari_owner USING (tenant_id = current_tenant());

CREATE FUNCTION renamed_values(details jsonb, names jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT COALESCE(jsonb_object_agg(e.key, COALESCE(
        CASE WHEN jsonb_typeof(e.value) = 'string' THEN names -> (e.value #>> '{}') END, e.value)), '{}') FROM jsonb_each(details) e
$$;

DROP FUNCTION pseudonymise_audit(text[]);
CREATE FUNCTION pseudonymise_audit(of_tenant uuid, ids text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = recordari, pg_temp AS $$
DECLARE
    names jsonb;
BEGIN
    PERFORM recordari.refuse_other_tenant(of_tenant);
    SELECT jsonb_object_agg(n.id, 'erased:' || left(encode(recordari.erasure_hash(t.salt, 'user', n.id), 'hex'), 32)) INTO names
    FROM recordari.tenants t, unnest(ids) AS n (id) WHERE t.tenant_id = of_tenant;
    UPDATE recordari.audit a SET
        subject_id = COALESCE(names ->> a.subject_id, a.subject_id),
        actor = COALESCE(split_part(a.actor, ':', 1) || ':' || (
                CASE WHEN strpos(a.actor, ':') > 0 THEN names ->> substr(a.actor, strpos(a.actor, ':') + 1) END),
            names ->> a.actor, a.actor),
        reason = CASE WHEN a.action = 'session.close' AND a.reason <> ALL(ids) THEN a.reason END,
        details = recordari.renamed_values(a.details, names)
    WHERE a.tenant_id = of_tenant AND (
        a.subject_id = ANY(ids) OR a.actor = ANY(ids) OR a.reason = ANY(ids)
        OR substr(a.actor, strpos(a.actor, ':') + 1) = ANY(ids)
        OR EXISTS (SELECT 1 FROM jsonb_each_text(a.details) e WHERE e.value = ANY(ids)));
END $$;
REVOKE ALL ON FUNCTION pseudonymise_audit(uuid, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pseudonymise_audit(uuid, text[]) TO recordari_retention;

-- The protected texts that share a mark with a text. On one server only the marks lead to them, as before; on a cluster the
-- tenant's key leads to its node.
CREATE FUNCTION near_protected(sources uuid[], marks integer[])
    RETURNS TABLE (item_id uuid, content text, shingles integer[]) LANGUAGE plpgsql STABLE ROWS 20 AS $$
DECLARE
    tenant uuid := recordari.current_tenant();
BEGIN
    IF recordari.is_divided() THEN
        RETURN QUERY SELECT p.item_id, p.content, p.shingles FROM recordari.protected_texts p
            WHERE p.tenant_id = tenant AND p.fingerprints && marks AND p.source_id = ANY(sources);
    ELSE
        RETURN QUERY SELECT p.item_id, p.content, p.shingles FROM recordari.protected_texts p
            WHERE p.fingerprints && marks AND p.source_id = ANY(sources)
                AND p.tenant_id::text = tenant::text;  -- as text, so that the key is no way in
    END IF;
END $$;
-- As before, with whole names.
CREATE OR REPLACE FUNCTION shadows_protected(sources uuid[], said text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER COST 10000
    SET search_path = recordari, public, pg_temp
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
    words text := recordari.spaced_words(said);
    -- 100 characters and 0.85: seed 003 D4, contracts and not settings. Marks and spaces count in the text, not in the words.
    passage integer := ceil(100.0 * length(words) / length(said));
    places integer[];
    found integer[];
    marks integer[];
BEGIN
    SELECT array_agg(s.place), array_agg(s.shingle), array_agg(DISTINCT s.fingerprint) INTO places, found, marks
    FROM recordari.shingles_of(recordari.current_tenant(), words) s;
    RETURN EXISTS (
        WITH near AS MATERIALIZED (
            SELECT p.item_id, p.content, p.shingles FROM recordari.near_protected(sources, marks) p
        ), shared AS (
            SELECT n.item_id, s.place FROM near n CROSS JOIN LATERAL unnest(n.shingles) AS h (shingle)
            JOIN unnest(places, found) AS s (place, shingle) ON s.shingle = h.shingle
        ), steps AS (
            -- A word that was changed leaves a gap. What is near by chance may not stretch a passage, so both are tried.
            SELECT s.item_id, s.place, g.gap, s.place - lag(s.place) OVER (
                PARTITION BY s.item_id, g.gap ORDER BY s.place) > 20 + g.gap AS opens
            FROM shared s CROSS JOIN (VALUES (8), (30)) AS g (gap)
        ), runs AS (
            SELECT t.item_id, t.place, t.gap, count(*) FILTER (WHERE t.opens) OVER (
                PARTITION BY t.item_id, t.gap ORDER BY t.place) AS run
            FROM steps t
        ), spans AS (
            SELECT r.item_id, min(r.place) AS first, max(r.place) + 20 - min(r.place) AS size FROM runs r
            GROUP BY r.item_id, r.gap, r.run HAVING max(r.place) + 20 - min(r.place) >= 0.85 * passage
        ), protected AS (
            SELECT s.first, s.size, recordari.spaced_words(n.content) AS content FROM spans s JOIN near n ON n.item_id = s.item_id
        )
        SELECT 1 FROM protected p
        WHERE public.word_similarity(
                substr(words, LEAST(p.first, GREATEST(1, length(words) - passage + 1)), GREATEST(p.size, passage)), p.content)
                > 0.85::real
            OR (p.size > 0.6 * length(words) AND public.word_similarity(words, p.content) > 0.85::real));
END $$;
