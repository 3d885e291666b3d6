-- Leak guard by passages: a copy is found inside a long protected text, and inside a longer text of its own.
--
-- A text is read as words in small letters with one space between them. Its shingles are the 20 characters from the
-- beginning of each word on; a word of more than 8 letters counts as several, so that it also works for languages that
-- write no spaces. Of three shingles in a row the least one is a fingerprint: two texts that share three have one in common.
-- Fingerprints find the few texts that may be copied, whatever the number of protected texts; similarity decides.

CREATE FUNCTION spaced_words(content text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN btrim(regexp_replace(lower(content), '[[:space:][:punct:]]+', ' ', 'g'));

-- The tenant is part of every shingle: no tenant reads what another one has in the index.
CREATE FUNCTION shingles_of(of_tenant uuid, words text) RETURNS TABLE (place integer, shingle integer, fingerprint integer)
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    seed bigint := hashtextextended(of_tenant::text, 0);
BEGIN
    RETURN QUERY
    WITH pieces AS (
        SELECT w.ordinal, (sum(length(w.piece[1])) OVER (ORDER BY w.ordinal) - length(w.piece[1]))::integer + 1 AS place,
            left(string_agg(w.piece[1], '') OVER (ORDER BY w.ordinal ROWS BETWEEN CURRENT ROW AND 9 FOLLOWING), 20) AS said
        FROM regexp_matches(words, '[^ ]{1,8} ?', 'g') WITH ORDINALITY AS w (piece, ordinal)
    ), hashed AS (
        SELECT p.ordinal, p.place, (hashtextextended(p.said, seed) >> 32)::integer AS shingle
        FROM pieces p WHERE length(p.said) = 20
    )
    SELECT h.place, h.shingle, min(h.shingle) OVER (ORDER BY h.ordinal ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
    FROM hashed h;
END $$;

CREATE FUNCTION all_shingles(of_tenant uuid, content text) RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY(SELECT DISTINCT s.shingle FROM recordari.shingles_of(of_tenant, recordari.spaced_words(content)) s);

CREATE FUNCTION fingerprints(of_tenant uuid, content text) RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY(SELECT DISTINCT s.fingerprint FROM recordari.shingles_of(of_tenant, recordari.spaced_words(content)) s);

ALTER TABLE protected_texts
    DROP COLUMN place,
    ADD COLUMN shingles integer[] NOT NULL GENERATED ALWAYS AS (recordari.all_shingles(tenant_id, content)) STORED,
    ADD COLUMN fingerprints integer[] NOT NULL GENERATED ALWAYS AS (recordari.fingerprints(tenant_id, content)) STORED;
-- A check reads the list of what is not sorted in yet, so that it is short.
CREATE INDEX protected_texts_by_fingerprint ON protected_texts USING gin (fingerprints)
    WITH (fastupdate = on, gin_pending_list_limit = 64);

-- Whether a passage of at least 100 characters of a text is more than 0.85 similar to a part of a protected text, or the
-- whole text is. It reads the texts as the owner, because under a policy an operator that is not leakproof could not use its
-- index. Only the fingerprints lead to a text: without scans of other indexes the plan needs no statistics.
DROP FUNCTION shadows_protected(uuid[], text) CASCADE;
CREATE FUNCTION shadows_protected(sources uuid[], said text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER COST 10000
    SET search_path = recordari, public, pg_temp
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
    words text := spaced_words(said);
    -- 100 characters and 0.85: seed 003 D4, contracts and not settings. Marks and spaces count in the text, not in the words.
    passage integer := ceil(100.0 * length(words) / length(said));
    places integer[];
    found integer[];
    marks integer[];
BEGIN
    SELECT array_agg(s.place), array_agg(s.shingle), array_agg(DISTINCT s.fingerprint) INTO places, found, marks
    FROM shingles_of(current_tenant(), words) s;
    RETURN EXISTS (
        WITH near AS MATERIALIZED (
            SELECT p.item_id, p.content, p.shingles FROM protected_texts p
            WHERE p.fingerprints && marks AND p.source_id = ANY(sources)
                AND p.tenant_id::text = current_tenant()::text  -- as text, so that the key is no way in
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
        )
        SELECT FROM spans s JOIN near n ON n.item_id = s.item_id
        WHERE word_similarity(
                substr(words, LEAST(s.first, GREATEST(1, length(words) - passage + 1)), GREATEST(s.size, passage)), n.content)
                > 0.85::real
            OR (s.size > 0.6 * length(words) AND word_similarity(words, n.content) > 0.85::real));
END $$;
REVOKE ALL ON FUNCTION shadows_protected(uuid[], text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shadows_protected(uuid[], text) TO recordari_app, recordari_retention;

-- Whether a text copies a protected one of its tenant; a text that names no source is compared with all.
CREATE FUNCTION copies_protected(of_tenant uuid, of_source uuid, said text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    sources uuid[];
BEGIN
    SELECT array_agg(p.source_id) INTO sources FROM recordari.protected_sources p
    WHERE p.tenant_id = of_tenant AND (of_source IS NULL OR p.source_id = of_source);
    RETURN sources IS NOT NULL AND recordari.shadows_protected(sources, said);
END $$;

CREATE OR REPLACE FUNCTION guard_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF recordari.copies_protected(NEW.tenant_id, NEW.source_id, NEW.content) THEN
        RAISE EXCEPTION 'the text copies a protected document'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'items_leak_guard', TABLE = 'items';
    END IF;
    RETURN NEW;
END $$;

-- What is semantic (facts and entries) is compared when it becomes current: as a new row, by another text, kind or source,
-- and when it is restored. A row that ended is history and may be imported.
DROP TRIGGER items_leak_guard ON items;
CREATE TRIGGER items_leak_guard BEFORE INSERT ON items FOR EACH ROW
    WHEN (NEW.kind IN ('fact', 'entry') AND length(NEW.content) >= 100 AND NEW.invalid_at IS NULL)
    EXECUTE FUNCTION guard_facts();
CREATE TRIGGER items_leak_guard_changed BEFORE UPDATE OF content, kind, source_id, invalid_at ON items FOR EACH ROW
    WHEN (NEW.kind IN ('fact', 'entry') AND length(NEW.content) >= 100 AND NEW.invalid_at IS NULL AND (
        NEW.content <> OLD.content OR NEW.kind <> OLD.kind OR NEW.source_id IS DISTINCT FROM OLD.source_id
        OR OLD.invalid_at IS NOT NULL))
    EXECUTE FUNCTION guard_facts();

-- A text that becomes protected may have copies already: a worker looks for them, once for all texts of a transaction.
CREATE FUNCTION look_for_copies() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recordari_queue.outbox (topic, tenant_id, ref)
    SELECT 'end_copies', NEW.tenant_id, NEW.source_id WHERE NOT EXISTS (
        SELECT FROM recordari_queue.outbox o
        WHERE o.tenant_id = NEW.tenant_id AND o.topic = 'end_copies' AND o.ref = NEW.source_id
            AND o.xmin = pg_current_xact_id()::xid);
    RETURN NULL;
END $$;
CREATE TRIGGER protected_texts_have_copies AFTER INSERT ON protected_texts FOR EACH ROW EXECUTE FUNCTION look_for_copies();
