-- name: visible
-- Fragment: the owners, kinds and times of visible items; the only definition of who sees what.
i.kind = ANY(%(kinds)s) AND i.event_time >= %(since)s AND i.event_time < %(until)s
        AND ((i.scope = 'tenant' AND %(tenant_scope)s) OR (i.scope = 'user' AND i.user_id = %(user_id)s)
            OR (i.scope = 'agent' AND i.agent_id = %(agent_id)s)
            OR (i.scope = 'session' AND i.owned_by = %(owned_by)s AND i.session_id = ANY(%(session_ids)s)){history})

-- name: of_history
-- Fragment: also what was said, returned and summarised in other sessions of the user.
OR (i.scope = 'session' AND i.user_id = %(history_user)s AND i.kind = ANY(%(history_kinds)s)
                AND i.session_id <> ALL(%(line)s))

-- name: holds_now
-- Fragment: items that are true and not forgotten; faded ones too, but nothing that ended with its run or session.
i.invalid_at IS NULL AND i.superseded_by IS NULL AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
        AND (i.archived_at IS NULL OR i.tier NOT IN ('run', 'session'))

-- name: held_then
-- Fragment: items that were true at one moment by what was recorded at another, whatever happened since.
i.valid_at <= %(as_of)s AND i.created_at <= %(known_at)s
    AND (i.invalid_at IS NULL OR i.invalid_at > %(as_of)s OR i.retired_at > %(known_at)s)
    AND i.deleted_at IS NULL AND i.anonymized_at IS NULL

-- name: also_superseded
-- Fragment: items that an administrator may see, the retired included.
i.deleted_at IS NULL AND i.anonymized_at IS NULL

-- name: not_archived
-- Fragment: without what has faded.
i.archived_at IS NULL

-- name: vector_holds_now
-- Fragment: the same for vectors, which carry the flag so that a partial index can hold only these.
i.live

-- name: vector_held_then
-- Fragment: vectors of items that were true at one moment by what was recorded at another.
EXISTS (
    SELECT 1 FROM items x WHERE x.tenant_id = %(tenant_id)s AND x.item_id = i.item_id
        AND x.valid_at <= %(as_of)s AND x.created_at <= %(known_at)s
        AND (x.invalid_at IS NULL OR x.invalid_at > %(as_of)s OR x.retired_at > %(known_at)s)
        AND x.deleted_at IS NULL AND x.anonymized_at IS NULL)

-- name: vector_also_superseded
-- Fragment: vectors of items that an administrator may see.
EXISTS (
    SELECT 1 FROM items x WHERE x.tenant_id = %(tenant_id)s AND x.item_id = i.item_id
        AND x.deleted_at IS NULL AND x.anonymized_at IS NULL)

-- name: vector_not_archived
-- Fragment: without vectors of what has faded.
NOT i.archived

-- name: vector_visible
-- Fragment: `visible` for vectors, which carry their owner as one value.
i.owner COLLATE "C" = ANY(%(owners)s) AND i.kind = ANY(%(kinds)s) AND i.event_time >= %(since)s AND i.event_time < %(until)s

-- name: vector_of_history
-- Fragment: `of_history` for vectors: the sessions of a user are one range of owners.
i.owner COLLATE "C" > %(history_from)s AND i.owner COLLATE "C" < %(history_to)s AND i.owner <> ALL(%(line_owners)s)
            AND i.kind = ANY(%(kinds)s) AND i.kind = ANY(%(history_kinds)s)
            AND i.event_time >= %(since)s AND i.event_time < %(until)s

-- name: of_source
-- Fragment: only items of a source.
i.source_id = %(source_id)s

-- name: vector_of_source
-- Fragment: only vectors of items of a source.
EXISTS (
    SELECT 1 FROM items x WHERE x.tenant_id = %(tenant_id)s AND x.item_id = i.item_id AND x.source_id = %(source_id)s)

-- name: distances
-- Fragment: how near vectors are. OFFSET 0 keeps the planner from any index by distance.
SELECT i.item_id, i.embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions}) AS distance
        FROM vectors i
        WHERE i.tenant_id = %(tenant_id)s AND i.model_id = %(model_id)s AND {vector_live} AND {part} OFFSET 0

-- name: exact_nearest
-- The nearest of all visible vectors.
SELECT n.item_id, n.distance FROM (
        {distances}
    ) n ORDER BY n.distance LIMIT %(vector_depth)s

-- name: indexed_nearest
-- The same by the tenant's own index, which may give up too early.
SELECT i.item_id, i.embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions}) AS distance
FROM vectors i
WHERE i.tenant_id = %(tenant_id)s AND i.model_id = %(model_id)s AND {vector_live}
    -- No other index can find this, nor is it estimated as rare: the index by distance is used.
    AND COALESCE({visible_vectors}, false)
ORDER BY i.embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions}) LIMIT %(vector_depth)s

-- name: word_columns
-- Fragment: what decides whether an item with a word is visible.
i.item_id, i.kind, i.scope, i.owned_by, i.user_id, i.agent_id, i.session_id, i.source_id, i.event_time, i.created_at, i.valid_at,
        i.invalid_at, i.retired_at, i.superseded_by, i.tier, i.archived_at, i.deleted_at, i.anonymized_at, i.tsv

-- name: words_of_owners
-- Fragment: what these owners have with a word, found by owner and word. OFFSET 0 keeps the planner from any other index.
SELECT w.* FROM unnest(%(owners)s::text[]) AS o (owner) CROSS JOIN LATERAL (
        SELECT {word_columns} FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.owner COLLATE "POSIX" = o.owner AND i.tsv @@ t.query OFFSET 0) w

-- name: words_of_history
-- Fragment: the same for the other sessions of a user, by the user: in this index a range of owners would be read from both ends.
-- The scope is compared afterwards, or the index by scope would be taken, which reads the sessions of everybody.
SELECT w.* FROM (
        SELECT {word_columns} FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.user_id COLLATE "POSIX" = %(history_user)s AND i.tsv @@ t.query OFFSET 0) w
    WHERE w.scope = 'session' AND w.session_id <> ALL(%(line)s)

-- name: words_of_tenant
-- Fragment: the same of the whole tenant, which takes a tenth less for a memory that is a large part of it.
SELECT {word_columns} FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.tsv @@ t.query OFFSET 0

-- name: worded
-- The items that have any of the terms, best first.
SELECT i.item_id, sum(t.weight * ts_rank(i.tsv, t.query, 1)) AS score
FROM unnest(%(queries)s::tsquery[], %(weights)s::real[]) AS t (query, weight)
CROSS JOIN LATERAL ({with_word}) i
WHERE {live} AND {visible}
GROUP BY i.item_id ORDER BY score DESC, i.item_id DESC LIMIT %(depth)s

-- name: timely
-- The items of the interval in question, latest first: those of each owner by owner and time, and those of the other sessions of a
-- user, which are many owners. What others in the tenant did at that time is not read. What is visible is looked at afterwards,
-- or the index by scope would be taken, which reads the sessions of everybody.
SELECT t.item_id FROM (
    SELECT i.item_id, i.event_time FROM unnest(%(owners)s::text[]) AS o (owner) CROSS JOIN LATERAL (
        SELECT i.item_id, i.event_time FROM (
            SELECT i.* FROM items i
            WHERE i.tenant_id = %(tenant_id)s AND i.owner COLLATE "C" = o.owner
                AND i.event_time >= %(interval_start)s AND i.event_time < %(interval_end)s
            ORDER BY i.event_time DESC OFFSET 0) i
        WHERE {live} AND {visible} ORDER BY i.event_time DESC LIMIT %(depth)s) i
    UNION ALL SELECT i.item_id, i.event_time FROM (
        SELECT i.* FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND %(history_user)s::text IS NOT NULL
            AND i.owner COLLATE "C" > %(history_from)s AND i.owner COLLATE "C" < %(history_to)s
            AND i.event_time >= %(interval_start)s AND i.event_time < %(interval_end)s OFFSET 0) i
    WHERE i.owner <> ALL(%(line_owners)s) AND {live} AND {visible}
) t ORDER BY t.event_time DESC LIMIT %(depth)s

-- name: naming
-- The items that mention entities of the question, those with most of them first. A name may be in thousands of items and few
-- are wanted: so mentions are counted and ordered before any item is looked up, and of those with one name only the newest.
-- Two names need no order by number: the index has the mentions of each by item, and both are read side by side, newest first,
-- only until enough are found.
WITH asked AS MATERIALIZED (
    SELECT entity_id, row_number() OVER () AS place FROM entities
    WHERE tenant_id = %(tenant_id)s AND key = ANY(%(entity_keys)s)
), several AS MATERIALIZED (
    SELECT * FROM (
        SELECT m.item_id, count(*) AS shared FROM (
            (SELECT item_id FROM mentions WHERE tenant_id = %(tenant_id)s
                AND entity_id = (SELECT entity_id FROM asked WHERE place = 1) ORDER BY item_id DESC)
            UNION ALL (SELECT item_id FROM mentions WHERE tenant_id = %(tenant_id)s
                AND entity_id = (SELECT entity_id FROM asked WHERE place = 2) ORDER BY item_id DESC)) m
        WHERE (SELECT count(*) FROM asked) = 2
        GROUP BY m.item_id HAVING count(*) > 1 ORDER BY m.item_id DESC) two
    UNION ALL SELECT * FROM (
        SELECT m.item_id, count(*) AS shared FROM asked a
        JOIN mentions m ON m.tenant_id = %(tenant_id)s AND m.entity_id = a.entity_id
        WHERE (SELECT count(*) FROM asked) > 2
        GROUP BY m.item_id HAVING count(*) > 1 ORDER BY shared DESC, m.item_id DESC) more
), most AS MATERIALIZED (
    SELECT m.item_id, m.shared FROM several m
    CROSS JOIN LATERAL (SELECT i.* FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.item_id = m.item_id OFFSET 0) i
    WHERE {live} AND {visible} LIMIT %(depth)s
)
SELECT item_id, shared FROM most
UNION ALL
SELECT m.item_id, 1 FROM asked a CROSS JOIN LATERAL (
    SELECT m.item_id FROM (
        SELECT item_id FROM mentions
        WHERE tenant_id = %(tenant_id)s AND entity_id = a.entity_id ORDER BY item_id DESC OFFSET 0) m
    CROSS JOIN LATERAL (SELECT i.* FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.item_id = m.item_id OFFSET 0) i
    WHERE m.item_id NOT IN (SELECT item_id FROM several) AND {live} AND {visible} LIMIT %(depth)s) m
WHERE (SELECT count(*) FROM most) < %(depth)s
ORDER BY shared DESC, item_id DESC LIMIT %(depth)s

-- name: linked
-- The items that mention a name which is beside one of the question in another item, and none of the question; only through
-- names with few mentions.
WITH asked AS MATERIALIZED (
    SELECT entity_id FROM entities WHERE tenant_id = %(tenant_id)s AND key = ANY(%(entity_keys)s)
), near AS MATERIALIZED (
    SELECT DISTINCT unnest(f.item_ids) AS item_id FROM asked a CROSS JOIN LATERAL (
        SELECT array_agg(m.item_id) AS item_ids FROM (
            SELECT item_id FROM mentions
            WHERE tenant_id = %(tenant_id)s AND entity_id = a.entity_id LIMIT %(few)s + 1) m) f
    WHERE cardinality(f.item_ids) <= %(few)s
), bridges AS MATERIALIZED (
    -- Only through visible items: those of others must not lead anywhere.
    SELECT DISTINCT m.entity_id FROM near n
    CROSS JOIN LATERAL (
        SELECT i.* FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.item_id = n.item_id AND {live} AND {visible} OFFSET 0) i
    CROSS JOIN LATERAL (
        SELECT entity_id FROM mentions WHERE tenant_id = %(tenant_id)s AND item_id = i.item_id OFFSET 0) m
    WHERE m.entity_id NOT IN (SELECT entity_id FROM asked)
), far AS MATERIALIZED (
    SELECT DISTINCT unnest(f.item_ids) AS item_id FROM bridges b CROSS JOIN LATERAL (
        SELECT array_agg(m.item_id) AS item_ids FROM (
            SELECT item_id FROM mentions
            WHERE tenant_id = %(tenant_id)s AND entity_id = b.entity_id LIMIT %(few)s + 1) m) f
    WHERE cardinality(f.item_ids) <= %(few)s
)
SELECT i.item_id FROM far f
CROSS JOIN LATERAL (SELECT i.* FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.item_id = f.item_id OFFSET 0) i
WHERE {live} AND {visible} AND NOT EXISTS (
    SELECT 1 FROM mentions m WHERE m.tenant_id = %(tenant_id)s AND m.item_id = f.item_id
        AND m.entity_id IN (SELECT entity_id FROM asked))
ORDER BY i.item_id DESC LIMIT %(depth)s

-- name: seen
-- How many vectors are visible, counted up to a limit.
SELECT count(*) AS number FROM (SELECT 1 FROM ({listed}) l LIMIT %(limit)s) s

-- name: listed
-- Fragment: the visible vectors, up to a limit.
(SELECT 1 FROM vectors i
    WHERE i.tenant_id = %(tenant_id)s AND i.model_id = %(model_id)s AND i.live AND {part} LIMIT %(limit)s)

-- name: candidate_columns
-- Fragment: the columns of an item that may answer, in the order of `Candidate`.
item_id, scope, thread, position, speaker, trust, event_time, terms, tokens, traits, session_id, archived_at

-- name: candidates
-- Items that may answer: those found without a vector and those nearest in meaning, with the items beside them.
WITH found AS (
    SELECT item_id, 'vector' AS arm, rank, distance
    FROM unnest(%(vector_ids)s::uuid[], %(distances)s::float8[]) WITH ORDINALITY AS t (item_id, distance, rank)
    UNION ALL SELECT item_id, 'text', rank, NULL FROM unnest(%(text_ids)s::uuid[]) WITH ORDINALITY AS t (item_id, rank)
    UNION ALL SELECT item_id, 'time', rank, NULL FROM unnest(%(time_ids)s::uuid[]) WITH ORDINALITY AS t (item_id, rank)
    UNION ALL SELECT item_id, 'entity', rank, NULL FROM unnest(%(entity_ids)s::uuid[]) WITH ORDINALITY AS t (item_id, rank)
), hits AS MATERIALIZED (
    -- Look-ups by key are LATERAL … OFFSET 0 from here on: without statistics, as after a large import, the planner would
    -- rather walk the whole tenant. Each item is looked up once, with all of its columns.
    SELECT f.*, i.* FROM (
        SELECT item_id AS found_id, min(distance) AS distance,
            min(rank) FILTER (WHERE arm = 'text') AS text_rank, min(rank) FILTER (WHERE arm = 'vector') AS vector_rank,
            min(rank) FILTER (WHERE arm = 'time') AS time_rank, min(rank) FILTER (WHERE arm = 'entity') AS entity_rank
        FROM found GROUP BY item_id) f
    CROSS JOIN LATERAL (
        -- Visibility is checked again: the item may have been retired since it was found.
        SELECT {candidate_columns}, i.kind = 'fact' AS is_fact FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.item_id = f.found_id AND {live} AND {visible} OFFSET 0) i
), places AS MATERIALIZED (
    SELECT thread, position + step AS position, bool_or(step = 1) AS follows
    FROM hits CROSS JOIN (VALUES (-1), (1)) AS s (step) WHERE thread IS NOT NULL GROUP BY 1, 2
), beside AS (
    -- The one after a hit may be its answer; the one before lends it its words.
    SELECT p.follows, n.* FROM places p
    CROSS JOIN LATERAL (
        SELECT {candidate_columns}, i.kind = 'fact' AS is_fact FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.thread = p.thread AND i.position = p.position AND {live} AND {visible}
        OFFSET 0) n
), wanted AS (
    SELECT {candidate_columns}, is_fact, distance, true AS is_hit, text_rank, vector_rank, time_rank, entity_rank FROM hits
    UNION ALL SELECT {candidate_columns}, is_fact, NULL, follows, NULL, NULL, NULL, NULL FROM beside
    WHERE item_id NOT IN (SELECT item_id FROM hits)
)
SELECT {candidate_columns}, -COALESCE(distance, v.embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions})) AS similarity,
    is_fact, is_hit, text_rank, vector_rank, time_rank, entity_rank
FROM wanted w
LEFT JOIN LATERAL (
    SELECT embedding FROM vectors
    WHERE tenant_id = %(tenant_id)s AND model_id = %(model_id)s AND item_id = w.item_id AND w.distance IS NULL OFFSET 0) v ON true

-- name: version
-- How often the memory of these owners has changed; of a user with all sessions, of a session with all of its line. Found as in
-- `changes` of `snapshot_storage.sql`.
SELECT COALESCE(sum(m.version), 0)::bigint AS version FROM (
    SELECT DISTINCT k.class FROM (
        SELECT owner_class('session', %(user_id)s, NULL, s.session_id) AS class FROM sessions s
        WHERE s.tenant_id = %(tenant_id)s AND s.owned_by = %(owned_by)s AND s.root_id = (
            SELECT root_id FROM sessions
            WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s)
        UNION ALL VALUES (owner_class('tenant', NULL, NULL, NULL)), (owner_class('user', %(user_id)s, NULL, NULL)),
            (owner_class('agent', NULL, %(agent_id)s, NULL)), (owner_class('session', %(user_id)s, NULL, %(session_id)s))) k) k
CROSS JOIN LATERAL (
    SELECT version FROM memory_versions WHERE tenant_id = %(tenant_id)s AND owner_class = k.class OFFSET 0) m

-- name: outdated_among
-- Pairs of these items: a fact of the first has ended, and the second is the fact that ended it, or what that was taken from.
SELECT DISTINCT o.source_item_id, n.item_id FROM evidence o
JOIN items f ON f.tenant_id = %(tenant_id)s AND f.item_id = o.item_id AND f.kind = 'fact' AND f.superseded_by IS NOT NULL
CROSS JOIN LATERAL (
    SELECT f.superseded_by AS item_id
    UNION ALL SELECT s.source_item_id FROM evidence s WHERE s.tenant_id = %(tenant_id)s AND s.item_id = f.superseded_by) n
WHERE o.tenant_id = %(tenant_id)s AND o.source_item_id = ANY(%(item_ids)s) AND n.item_id = ANY(%(item_ids)s)
    AND n.item_id <> o.source_item_id

-- name: links_among
-- The pairs of these items of which the first was taken from the second.
SELECT item_id, source_item_id FROM evidence
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND source_item_id = ANY(%(item_ids)s)

-- name: passage_distances
-- Fragment: how near passages are. OFFSET 0 keeps the planner from any other order.
SELECT i.item_id, i.ordinal, i.embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions}) AS distance
        FROM passages i WHERE i.tenant_id = %(tenant_id)s AND i.model_id = %(model_id)s AND {part} OFFSET 0

-- name: found_passages
-- Passages of long texts that have any of the terms or are nearest in meaning, each with what the ranker needs of it and its item.
WITH worded AS MATERIALIZED (
    SELECT i.item_id, i.ordinal, sum(t.weight * i.rank) AS score
    FROM unnest(%(queries)s::tsquery[], %(weights)s::real[]) AS t (query, weight)
    CROSS JOIN LATERAL (
        SELECT i.item_id, i.ordinal, i.owner, i.kind, i.event_time, ts_rank(i.tsv, t.query, 1) AS rank
        FROM passages i WHERE i.tenant_id = %(tenant_id)s AND i.tsv @@ t.query OFFSET 0) i
    WHERE {visible_passages}
    GROUP BY i.item_id, i.ordinal ORDER BY score DESC, i.item_id, i.ordinal LIMIT %(text_depth)s
), near AS MATERIALIZED (
    SELECT n.item_id, n.ordinal, n.distance FROM ({distances}) n ORDER BY n.distance LIMIT %(vector_depth)s
), found AS (
    SELECT item_id, ordinal, min(text_rank) AS text_rank, min(vector_rank) AS vector_rank FROM (
        SELECT item_id, ordinal, row_number() OVER (ORDER BY score DESC) AS text_rank, NULL::bigint AS vector_rank FROM worded
        UNION ALL SELECT item_id, ordinal, NULL, row_number() OVER (ORDER BY distance) FROM near) a
    GROUP BY item_id, ordinal
)
SELECT f.ordinal, i.item_id, i.scope, i.thread, NULL::integer, i.speaker, i.trust, i.event_time, p.terms, p.tokens, p.traits,
    i.session_id, i.archived_at, p.similarity, false, true, f.text_rank, f.vector_rank, NULL::bigint, NULL::bigint
FROM found f
CROSS JOIN LATERAL (
    SELECT p.terms, p.tokens, p.traits, CASE WHEN p.model_id = %(model_id)s THEN
        -(p.embedding::halfvec({dimensions}) <#> %(vector)s::halfvec({dimensions})) END AS similarity
    FROM passages p WHERE p.tenant_id = %(tenant_id)s AND p.item_id = f.item_id AND p.ordinal = f.ordinal OFFSET 0) p
CROSS JOIN LATERAL (
    SELECT i.item_id, i.scope, i.thread, i.speaker, i.trust, i.event_time, i.session_id, i.archived_at FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = f.item_id AND {live} AND {visible} OFFSET 0) i

-- name: passage_texts
-- The texts of these passages.
SELECT p.item_id, p.ordinal, p.start, p.content
FROM unnest(%(item_ids)s::uuid[], %(ordinals)s::integer[]) AS g (item_id, ordinal)
JOIN passages p ON p.tenant_id = %(tenant_id)s AND p.item_id = g.item_id AND p.ordinal = g.ordinal

-- name: add_counts
-- Adds how often items were recalled since the last flush.
INSERT INTO access (tenant_id, item_id, times, last_at)
SELECT i.tenant_id, i.item_id, g.times, g.last_at
FROM unnest(%(item_ids)s::uuid[], %(times)s::bigint[], %(last_ats)s::timestamptz[]) AS g (item_id, times, last_at)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
ORDER BY i.item_id
ON CONFLICT (tenant_id, item_id) DO UPDATE SET
    times = access.times + excluded.times, last_at = GREATEST(access.last_at, excluded.last_at)
RETURNING 1

-- name: note_uses
-- Who saw items last, and where; the last one of a slot stays. Nothing is written of a user who was erased meanwhile: looked up
-- once for each answer and not for each of its items, which takes as long as all the rest.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(item_ids)s::uuid[], %(owners)s::text[], %(agents)s::text[], %(sessions)s::text[], %(vias)s::text[],
        %(last_ats)s::timestamptz[]) AS g (item_id, owned_by, agent_id, session_id, via, last_at)
), kept AS MATERIALIZED (
    SELECT o.owned_by, o.last_at FROM (SELECT DISTINCT owned_by, last_at FROM given OFFSET 0) o
    WHERE NOT is_erased_owner(o.owned_by, o.last_at)
)
INSERT INTO uses (tenant_id, item_id, slot, owned_by, agent_id, session_id, via, last_at)
SELECT DISTINCT ON (i.item_id, s.slot) i.tenant_id, i.item_id, s.slot, g.owned_by, g.agent_id, g.session_id, g.via, g.last_at
FROM given g JOIN kept k ON k.owned_by = g.owned_by AND k.last_at = g.last_at
CROSS JOIN LATERAL (SELECT hashtext(concat_ws(chr(31), g.owned_by, g.agent_id, g.session_id, g.via)) & 15 AS slot) s
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id AND i.anonymized_at IS NULL
ORDER BY i.item_id, s.slot, g.last_at DESC
ON CONFLICT (tenant_id, item_id, slot) DO UPDATE SET
    owned_by = excluded.owned_by, agent_id = excluded.agent_id, session_id = excluded.session_id, via = excluded.via,
    last_at = excluded.last_at
RETURNING 1

-- name: list_uses
-- Who saw an item last, newest first; of one owner, where named.
SELECT CASE WHEN left(owned_by, 5) = 'user:' THEN substr(owned_by, 6) END AS user_id, agent_id, session_id, via, last_at
FROM uses
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND (%(owned_by)s::text IS NULL OR owned_by = %(owned_by)s)
ORDER BY last_at DESC
