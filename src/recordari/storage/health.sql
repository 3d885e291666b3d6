-- name: describe_server
-- Version, clock, encoding and extensions of the server, and whether the text index works under row-level security.
SELECT current_setting('server_version_num')::integer AS version_number,
    split_part(current_setting('server_version'), ' ', 1) AS version,
    current_setting('server_encoding') AS encoding,
    clock_timestamp() AS clock,
    (SELECT jsonb_object_agg(extname, extversion) FROM pg_extension) AS extensions,
    (SELECT proleakproof FROM pg_proc WHERE oid = 'pg_catalog.ts_match_vq(tsvector, tsquery)'::regprocedure) AS text_leakproof,
    pg_database_size(current_database()) AS bytes
