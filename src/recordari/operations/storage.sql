-- name: save_report
-- The report of a day; a second one replaces the first and keeps its id.
INSERT INTO reports (tenant_id, report_id, kind, day, body, figures, warnings, created_at)
VALUES (%(tenant_id)s, %(report_id)s, %(kind)s, %(day)s, %(body)s, %(figures)s, %(warnings)s, %(created_at)s)
ON CONFLICT (tenant_id, kind, day) DO UPDATE SET
    body = excluded.body, figures = excluded.figures, warnings = excluded.warnings, created_at = excluded.created_at
RETURNING report_id, kind, day, body, figures, warnings, created_at

-- name: find_report
-- One report.
SELECT report_id, kind, day, body, figures, warnings, created_at FROM reports
WHERE tenant_id = %(tenant_id)s AND report_id = %(report_id)s

-- name: list_reports
-- Reports of one kind, newest day first, before a day.
SELECT report_id, kind, day, body, figures, warnings, created_at FROM reports
WHERE tenant_id = %(tenant_id)s AND kind = %(kind)s AND day < %(before)s ORDER BY day DESC LIMIT %(limit)s

-- name: count_day
-- Current counts of the tenant, and counts of changes since a time.
SELECT
    (SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND live) AS items,
    (SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND kind = 'episode') AS episodes,
    (SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND kind = 'chat_message' AND created_at >= %(since)s)
        AS messages_new,
    (SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND kind = 'fact' AND created_at >= %(since)s) AS facts_new,
    (SELECT count(*) FROM items WHERE tenant_id = %(tenant_id)s AND kind = 'procedure' AND created_at >= %(since)s)
        AS procedures_new,
    (SELECT count(DISTINCT user_id) FROM sessions WHERE tenant_id = %(tenant_id)s AND active_at >= %(since)s) AS users_seen,
    (SELECT count(*) FROM proposals WHERE tenant_id = %(tenant_id)s AND status = 'open') AS proposals_open,
    (SELECT count(*) FROM audit WHERE tenant_id = %(tenant_id)s AND at >= %(since)s AND action = 'fact.supersede')
        AS facts_superseded,
    (SELECT count(*) FROM audit WHERE tenant_id = %(tenant_id)s AND at >= %(since)s AND subject_kind = 'tenant'
        AND subject_id = %(tenant_id)s::text AND action = 'retention.refuse')
        AS sweeps_refused,
    (SELECT count(*) FROM sessions WHERE tenant_id = %(tenant_id)s AND status = 'open') AS sessions_open,
    (SELECT count(*) FROM sessions WHERE tenant_id = %(tenant_id)s AND opened_at >= %(since)s) AS sessions_opened,
    (SELECT count(*) FROM sessions WHERE tenant_id = %(tenant_id)s AND closed_at >= %(since)s) AS sessions_closed,
    r.*
FROM (
    SELECT count(*) AS runs_started, count(*) FILTER (WHERE status = 'running') AS runs_running,
        count(*) FILTER (WHERE status = 'completed') AS runs_completed, count(*) FILTER (WHERE status = 'failed') AS runs_failed,
        COALESCE(sum(calls), 0)::bigint AS tool_calls, COALESCE(sum(tokens_in), 0)::bigint AS tokens_in,
        COALESCE(sum(tokens_out), 0)::bigint AS tokens_out
    FROM runs WHERE tenant_id = %(tenant_id)s AND started_at >= %(since)s) r

-- name: count_runs_by_agent
-- Runs since a time by agent, those with the most runs first.
SELECT agent_id, count(*) AS runs, count(*) FILTER (WHERE status = 'failed') AS failed
FROM runs WHERE tenant_id = %(tenant_id)s AND started_at >= %(since)s AND agent_id IS NOT NULL
GROUP BY agent_id ORDER BY runs DESC, agent_id LIMIT %(limit)s

-- name: count_new
-- The items of each day since one, by kind, whatever became of them.
SELECT day, jsonb_object_agg(kind, number) AS new FROM (
    SELECT day, kind, sum(items)::bigint AS number FROM item_counts
    WHERE tenant_id = %(tenant_id)s AND day >= %(since)s GROUP BY day, kind HAVING sum(items) <> 0) counted
GROUP BY day ORDER BY day

-- name: sum_costs
-- Cost of the runs that started since a time, by currency.
SELECT currency, sum(cost) AS cost FROM runs
WHERE tenant_id = %(tenant_id)s AND started_at >= %(since)s AND cost > 0 GROUP BY currency ORDER BY currency

-- name: count_items
-- Items of the tenant by kind, tier, scope and state, as every write counts them.
SELECT kind, tier, scope, CASE state WHEN 'deleted' THEN 'forgotten' ELSE state END AS state,
    sum(items)::bigint AS number, sum(bytes)::bigint AS bytes, sum(pinned)::bigint AS pinned
FROM item_counts WHERE tenant_id = %(tenant_id)s GROUP BY 1, 2, 3, 4 HAVING sum(items) <> 0

-- name: count_others
-- Numbers of vectors, payloads, sessions, runs and holds of the tenant, and the size of its payloads.
SELECT
    (SELECT count(*) FROM vectors WHERE tenant_id = %(tenant_id)s) AS vectors,
    (SELECT count(*) FROM payloads WHERE tenant_id = %(tenant_id)s) AS payloads,
    (SELECT COALESCE(sum(bytes), 0)::bigint FROM payloads WHERE tenant_id = %(tenant_id)s) AS payload_bytes,
    (SELECT count(*) FROM sessions WHERE tenant_id = %(tenant_id)s AND status = 'open') AS open_sessions,
    (SELECT count(*) FROM sessions WHERE tenant_id = %(tenant_id)s AND status <> 'open') AS closed_sessions,
    (SELECT count(*) FROM runs WHERE tenant_id = %(tenant_id)s) AS runs,
    (SELECT count(*) FROM holds WHERE tenant_id = %(tenant_id)s) AS holds

-- name: find_answer
-- The request and the answer of a key.
SELECT request_hash, sealed FROM answers
WHERE tenant_id = %(tenant_id)s AND key_hash = %(key_hash)s AND expires_at > %(now)s

-- name: delete_expired_answer
-- Make place for a new answer under a key whose old one has expired.
DELETE FROM answers WHERE tenant_id = %(tenant_id)s AND key_hash = %(key_hash)s AND expires_at <= %(now)s

-- name: insert_answer
-- The answer of a key, in the transaction of what the request wrote.
INSERT INTO answers (tenant_id, key_hash, request_hash, sealed, shows, expires_at)
VALUES (%(tenant_id)s, %(key_hash)s, %(request_hash)s, %(sealed)s, %(shows)s, %(expires_at)s)

-- name: delete_expired
-- Delete expired answers.
DELETE FROM answers WHERE tenant_id = %(tenant_id)s AND expires_at <= %(now)s

-- name: describe_server
-- Version, clock, encoding and extensions of the server, and whether the text index works under row-level security.
SELECT current_setting('server_version_num')::integer AS version_number,
    split_part(current_setting('server_version'), ' ', 1) AS version,
    current_setting('server_encoding') AS encoding,
    clock_timestamp() AS clock,
    (SELECT jsonb_object_agg(extname, extversion) FROM pg_extension) AS extensions,
    (SELECT proleakproof FROM pg_proc WHERE oid = 'pg_catalog.ts_match_vq(tsvector, tsquery)'::regprocedure) AS text_leakproof,
    pg_database_size(current_database()) AS bytes
