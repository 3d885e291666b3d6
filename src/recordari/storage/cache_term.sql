-- name: read_term
-- Which generation of cached entries counts, for how long the cache has been suspended and when it may be used again.
SELECT generation::text AS generation,
    EXTRACT(epoch FROM clock_timestamp() - suspended_at)::float8 AS suspended_for,
    CASE WHEN resumes_at = 'infinity' THEN 'infinity'::float8
        ELSE EXTRACT(epoch FROM resumes_at - clock_timestamp())::float8 END AS resumes_in
FROM cache_term

-- name: begin_term
-- The first generation; it counts only after everybody had time to learn of it.
INSERT INTO cache_term (generation, suspended_at, resumes_at)
VALUES (gen_random_uuid(), clock_timestamp(), clock_timestamp() + make_interval(secs => %(seconds)s::float8))
ON CONFLICT (only_row) DO NOTHING

-- name: suspend
-- End the generation and let nobody use the cache until it is resumed; when suspended already, it stays so.
UPDATE cache_term SET
    generation = gen_random_uuid(),
    suspended_at = CASE WHEN resumes_at > clock_timestamp() THEN suspended_at ELSE clock_timestamp() END,
    resumes_at = 'infinity'

-- name: resume
-- Let the cache be used again, after everybody had time to learn of it.
UPDATE cache_term SET resumes_at = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE resumes_at = 'infinity' AND generation = %(generation)s::uuid
