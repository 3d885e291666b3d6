-- name: changes
-- Fragment: how often the memory of these owners has changed. Their classes are made before the counts are looked up: under
-- row-level security no index finds a row by a function that could leak it.
SELECT COALESCE(sum(m.version), 0)::bigint AS version FROM (
        SELECT DISTINCT k.class FROM (
            SELECT owner_class('session', %(session_user)s, NULL, s) AS class FROM unnest(%(session_ids)s::text[]) AS s
            UNION ALL VALUES (owner_class('tenant', NULL, NULL, NULL)), (owner_class('user', %(user_id)s, NULL, NULL)),
                (owner_class('agent', NULL, %(agent_id)s, NULL)), (owner_class('session', %(history_user)s, NULL, NULL))) k) k
    CROSS JOIN LATERAL (
        SELECT version FROM memory_versions WHERE tenant_id = %(tenant_id)s AND owner_class = k.class OFFSET 0) m

-- name: waiting
-- Fragment: whether topics have work left.
EXISTS (SELECT 1 FROM outbox WHERE tenant_id = %(tenant_id)s AND topic = ANY(%(topics)s))

-- name: owned
-- Fragment: what these owners have, found by owner alone, whatever else the tenant has and the statistics of the table say:
-- OFFSET 0 keeps the planner from any other index.
SELECT i.*, i.xmin FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.owner COLLATE "C" = ANY(%(owners)s) OFFSET 0

-- name: owned_history
-- Fragment: the same for the other sessions of a user, which are one range of owners.
SELECT i.*, i.xmin FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.owner COLLATE "C" > %(history_from)s AND i.owner COLLATE "C" < %(history_to)s
            AND i.owner <> ALL(%(line_owners)s) OFFSET 0

-- name: meanings
-- Fragment: the vectors and names of what these owners have, up to a limit. A range of an index for each owner: looking each
-- item up takes twice as long, and for an array of owners or kinds the planner takes another index while the table is not
-- analysed, right after an import, and reads all vectors of the tenant.
SELECT v.item_id, v.embedding, v.names FROM unnest(%(owners)s::text[]) AS o (owner) CROSS JOIN LATERAL (
        SELECT v.item_id, v.embedding, v.names, v.kind FROM vectors v
        WHERE v.tenant_id = %(tenant_id)s AND v.model_id = %(model_id)s AND v.live AND v.owner COLLATE "C" = o.owner OFFSET 0) v
    WHERE v.kind = ANY(%(kinds)s) LIMIT %(limit)s

-- name: meanings_history
-- Fragment: the same for the other sessions of a user.
SELECT v.item_id, v.embedding, v.names FROM vectors v
        WHERE v.tenant_id = %(tenant_id)s AND v.model_id = %(model_id)s AND v.live
            AND v.owner COLLATE "C" > %(history_from)s AND v.owner COLLATE "C" < %(history_to)s AND v.owner <> ALL(%(line_owners)s)
            AND v.kind = ANY(%(kinds)s) AND v.kind = ANY(%(history_kinds)s) LIMIT %(limit)s

-- name: meanings_of_new
-- Fragment: the vectors and names of the items of `new`.
SELECT v.item_id, v.embedding, v.names FROM new n CROSS JOIN LATERAL (
        SELECT v.item_id, v.embedding, v.names FROM vectors v
        WHERE v.tenant_id = %(tenant_id)s AND v.model_id = %(model_id)s AND v.item_id = n.item_id OFFSET 0) v

-- name: visible_versions
-- How often the memory of these owners has changed, whether topics have work left, and if the count is not the known one: the
-- items that are visible now, each by its id and the number of its last change.
SELECT c.version, CASE WHEN c.version IS DISTINCT FROM %(known)s::bigint THEN (
    SELECT COALESCE(string_agg(uuid_send(s.item_id) || xidsend(s.version), ''::bytea), ''::bytea) FROM (
        SELECT i.item_id, i.xmin AS version FROM ({owned}) i WHERE {live} AND {visible} LIMIT %(limit)s) s
) END, {waiting}
FROM ({changes}) c

-- name: memory_state
-- How often the memory of these owners has changed, and whether topics have work left: all that is read of a memory which is
-- at hand and did not change.
SELECT c.version, {waiting} FROM ({changes}) c

-- name: snapshot
-- Fragment: everything that recall needs of the items of `new`: in the first row the columns of the ranker, each value one
-- after another, then a row for each item with the columns that are shown, read when it is.
SELECT c.version, {waiting}, {entries}, {links}, n.*, m.*, {no_columns}
FROM counted c CROSS JOIN (
    SELECT string_agg(n.entry, ''::bytea), array_agg(n.thread), array_agg(n.session_id), array_agg(n.speaker),
        array_agg(n.scope), array_agg(n.event_time), array_agg(COALESCE(n.position, -2)), array_agg(n.traits),
        array_agg((n.kind = 'fact')::integer + 2 * (n.trust = 'user')::integer + 4 * (n.archived_at IS NOT NULL)::integer),
        array_agg(octet_length(n.terms)), string_agg(n.terms, ''::bytea),
        array_agg(octet_length(n.tokens)), string_agg(n.tokens, ''::bytea), sum(octet_length(n.content)) FROM new n) n CROSS JOIN (
    SELECT string_agg(uuid_send(v.item_id) || halfvec_send(v.embedding), ''::bytea),
        string_agg(array_to_string(v.names, chr(31)), chr(30)) FROM ({meant}) v) m
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {late_columns}
FROM new n

-- name: entries
-- Fragment: the visible items, each by its id and the number of its last change.
(SELECT string_agg(s.entry, ''::bytea) FROM seen s)

-- name: links
-- Fragment: the pairs of visible facts and what these were taken from.
(SELECT string_agg(uuid_send(e.item_id) || uuid_send(e.source_item_id), ''::bytea)
        FROM {seen} s CROSS JOIN LATERAL (
            SELECT e.item_id, e.source_item_id FROM evidence e
            WHERE e.tenant_id = %(tenant_id)s AND e.item_id = s.item_id AND s.kind = 'fact' OFFSET 0) e)

-- name: snapshot_rows
-- Everything that recall needs of these items, if they are visible now. Each is looked up by its key: of hundreds of ids
-- the planner would rather walk the whole tenant.
WITH counted AS (SELECT NULL::bigint AS version), new AS MATERIALIZED (
    SELECT i.*, uuid_send(i.item_id) || xidsend(i.xmin) AS entry
    FROM unnest(%(item_ids)s::uuid[]) AS g (item_id) CROSS JOIN LATERAL (
        SELECT i.*, i.xmin FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id OFFSET 0) i
    WHERE {live} AND {visible}
)
{snapshot}

-- name: owned_rows
-- Everything that recall needs of the visible items of some owners, up to a limit.
WITH counted AS MATERIALIZED ({changes}), new AS MATERIALIZED (
    SELECT i.*, uuid_send(i.item_id) || xidsend(i.xmin) AS entry FROM ({owned}) i WHERE {live} AND {visible} LIMIT %(limit)s
)
{snapshot}

-- name: changed_rows
-- The same of a memory that is at hand: nothing if the count of changes is the known one, else only items that are not known in
-- this version.
WITH counted AS MATERIALIZED ({changes}), seen AS MATERIALIZED (
    SELECT i.*, uuid_send(i.item_id) || xidsend(i.xmin) AS entry FROM counted c CROSS JOIN LATERAL ({owned}) i
    WHERE c.version IS DISTINCT FROM %(known)s::bigint AND {live} AND {visible} LIMIT %(limit)s
), new AS MATERIALIZED (
    SELECT * FROM seen i WHERE i.entry NOT IN (
        SELECT substring(%(entries)s::bytea FROM n * 20 + 1 FOR 20)
        FROM generate_series(0, length(%(entries)s::bytea) / 20 - 1) AS n)
)
{snapshot}

-- name: no_repetition
-- Fragment: no facts whose message is live: a word is not more common because facts repeat it.
(i.kind <> 'fact' OR NOT EXISTS (
        SELECT 1 FROM evidence e JOIN items s ON s.tenant_id = %(tenant_id)s AND s.item_id = e.source_item_id
            AND s.invalid_at IS NULL AND s.superseded_by IS NULL AND s.deleted_at IS NULL AND s.anonymized_at IS NULL
        WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id OFFSET 0))

-- name: extent
-- How many items are visible, counted up to a limit, and how many terms they have on average.
SELECT count(*) AS items, COALESCE(avg(octet_length(s.terms)) / 4, 0)::float8 AS mean_length FROM (
    SELECT i.terms FROM ({owned}) i WHERE {live} AND {visible} AND {no_repetition} LIMIT %(limit)s) s

-- name: frequencies
-- In how many visible items each term occurs.
SELECT (SELECT count(*) FROM ({with_word}) i WHERE {live} AND {visible} AND {no_repetition}) AS frequency
FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS t (query, ordinal) ORDER BY t.ordinal
