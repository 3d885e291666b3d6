-- Leak guard in every form of Unicode: letters of full width, ligatures and letters without their accents are read alike.

CREATE OR REPLACE FUNCTION spaced_words(content text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN btrim(regexp_replace(
        lower(regexp_replace(normalize(content, NFKD), '[\u0300-\u036f]+', '', 'g')), '[[:space:][:punct:]]+', ' ', 'g'));

-- As before, but both texts are compared as these words.
CREATE OR REPLACE FUNCTION shadows_protected(sources uuid[], said text) RETURNS boolean
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
        ), protected AS (
            SELECT s.first, s.size, spaced_words(n.content) AS content FROM spans s JOIN near n ON n.item_id = s.item_id
        )
        SELECT FROM protected p
        WHERE word_similarity(
                substr(words, LEAST(p.first, GREATEST(1, length(words) - passage + 1)), GREATEST(p.size, passage)), p.content)
                > 0.85::real
            OR (p.size > 0.6 * length(words) AND word_similarity(words, p.content) > 0.85::real));
END $$;

-- What was derived from other words is derived again.
ALTER TABLE protected_texts NO FORCE ROW LEVEL SECURITY;
UPDATE protected_texts SET content = content WHERE content ~ '[^\u0001-\u007f]';
ALTER TABLE protected_texts FORCE ROW LEVEL SECURITY;
