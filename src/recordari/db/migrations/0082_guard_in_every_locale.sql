-- Leak guard in a database of any locale. Where it is C, letters beyond ASCII have no small form, marks such as "。" separate
-- nothing, and pg_trgm leaves all of them out: no text in another script was like any other.

DO $do$
DECLARE
    known name := (
        SELECT c.collname FROM pg_catalog.pg_collation c
        WHERE c.collname IN ('pg_c_utf8', 'und-x-icu') AND c.collencoding IN (-1, 6) ORDER BY c.collname LIMIT 1);
BEGIN
    IF known IS NULL OR public.show_trgm('я') <> '{}' THEN
        RETURN;
    END IF;
    EXECUTE format($f$
        CREATE OR REPLACE FUNCTION recordari.spaced_words(content text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
            RETURN btrim(regexp_replace(
                lower(regexp_replace(normalize(content, NFKD), '[\u0300-\u036f]+', '', 'g') COLLATE %I),
                '[[:space:][:punct:]]+', ' ', 'g'))$f$, known);
    -- What was derived from other words is derived again.
    ALTER TABLE recordari.protected_texts NO FORCE ROW LEVEL SECURITY;
    UPDATE recordari.protected_texts SET content = content WHERE content ~ '[^\u0001-\u007f]';
    ALTER TABLE recordari.protected_texts FORCE ROW LEVEL SECURITY;
END $do$;

-- Words as pg_trgm can compare them: where it leaves letters out, each of them is read as three that it keeps.
CREATE FUNCTION kept_letters(words text) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF words !~ '[^\u0001-\u007f]' OR public.show_trgm('я') <> '{}' THEN
        RETURN words;
    END IF;
    RETURN (
        SELECT string_agg(
            CASE
                WHEN s.code < 128 THEN chr(s.code)
                ELSE concat(chr(97 + s.code / 676 % 26), chr(97 + s.code / 26 % 26), chr(97 + s.code % 26))
            END, '' ORDER BY s.place)
        FROM (
            SELECT ascii(r.sign) AS code, r.place FROM regexp_split_to_table(words, '') WITH ORDINALITY AS r (sign, place)
        ) s);
END $$;

-- As before, with these words.
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
            SELECT s.first, s.size, recordari.kept_letters(recordari.spaced_words(n.content)) AS content
            FROM spans s JOIN near n ON n.item_id = s.item_id
        )
        SELECT 1 FROM protected p
        WHERE public.word_similarity(
                recordari.kept_letters(
                    substr(words, LEAST(p.first, GREATEST(1, length(words) - passage + 1)), GREATEST(p.size, passage))),
                p.content) > 0.85::real
            OR (p.size > 0.6 * length(words) AND public.word_similarity(recordari.kept_letters(words), p.content) > 0.85::real));
END $$;
