-- name: take_threads
-- Lock these threads until the commit, in one order for all writers: on a cluster on the node of the tenant.
SELECT pg_advisory_xact_lock(taken.key) FROM (
    SELECT DISTINCT thread_lock(t.tenant_id, thread) AS key FROM tenants t CROSS JOIN unnest(%(threads)s::text[]) AS thread
    WHERE t.tenant_id = %(tenant_id)s ORDER BY 1 OFFSET 0) taken

-- name: new_items
-- Fragment: writes new items in order, each at the next position of its thread; existing keys are left alone. A
-- vector holds if it was made by the tenant's only model with the head of the message before: then it is written with the names and
-- an outbox entry of the next work. Else the item gets an outbox entry of the topic.
-- Look-ups by key are in LATERAL … OFFSET 0: a generic plan would otherwise read all rows of a small tenant. MATERIALIZED: a
-- condition that contains the function of the owner could leak a row, so under row-level security no index would find it.
WITH given AS MATERIALIZED (
    SELECT *, item_owner(kind, scope, user_id, agent_id) AS owned_by
    FROM unnest({written_arrays}) WITH ORDINALITY AS g ({written_columns}, ordinal)
), fresh AS MATERIALIZED (
    SELECT DISTINCT ON (owned_by, kind, source_ref) g.* FROM given g LEFT JOIN LATERAL (
        SELECT true AS is_known FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.owned_by = g.owned_by AND i.kind = g.kind AND i.source_ref = g.source_ref
        OFFSET 0) k ON true
    WHERE k.is_known IS NULL
    ORDER BY owned_by, kind, source_ref, ordinal
), last AS MATERIALIZED (
    SELECT t.thread, l.* FROM (SELECT DISTINCT thread FROM fresh WHERE thread IS NOT NULL) t CROSS JOIN LATERAL (
        SELECT i.position, i.item_id, i.scope, i.content_hash,
            i.kind = 'chat_message' AND i.anonymized_at IS NULL AND i.deleted_at IS NULL AS is_message
        FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.thread = t.thread AND i.position IS NOT NULL
        ORDER BY i.position DESC LIMIT 1) l
), noted AS (
    INSERT INTO users (tenant_id, user_id)
    SELECT %(tenant_id)s::uuid, f.user_id FROM fresh f LEFT JOIN LATERAL (
        SELECT true AS is_known FROM users u
        WHERE u.tenant_id = %(tenant_id)s AND u.user_id = f.user_id OFFSET 0) k ON true
    WHERE f.user_id IS NOT NULL AND k.is_known IS NULL AND acts_for(f.user_id)
    GROUP BY f.user_id HAVING NOT is_erased_user(f.user_id, max(f.event_time))
    ON CONFLICT (tenant_id, user_id) DO NOTHING
    RETURNING 1
), made AS (
    INSERT INTO items (tenant_id, position, {written_columns})
    SELECT
        %(tenant_id)s::uuid,
        CASE WHEN f.thread IS NOT NULL THEN
            COALESCE(last.position, 0) + row_number() OVER (PARTITION BY f.thread ORDER BY ordinal) END,
        {f.written_columns}
    FROM fresh f LEFT JOIN last ON last.thread = f.thread
    ORDER BY ordinal
    ON CONFLICT (tenant_id, owned_by, kind, source_ref) DO NOTHING
    RETURNING item_id, kind, scope, user_id, agent_id, session_id, event_time, thread, content_hash, position,
        array_position(%(item_id)s::uuid[], item_id) AS ordinal
), model AS MATERIALIZED (
    SELECT t.settings @> %(unless)s::jsonb AS is_off FROM tenants t
    WHERE t.tenant_id = %(tenant_id)s AND t.embedding_model = %(model_id)s::text AND t.embedding_target IS NULL
), placed AS (
    -- By its ordinal: joined by id, a plan for few rows would compare each row with all of them.
    SELECT m.*, (%(slots)s::integer[])[m.ordinal] AS slot, (%(previous_ids)s::uuid[])[m.ordinal] AS previous_id,
        (%(previous_hashes)b::bytea[])[m.ordinal] AS previous_hash, (%(followings)s::text[])[m.ordinal] AS following,
        lag(m.item_id) OVER thread AS before_id, lag(m.content_hash) OVER thread AS before_hash,
        lag(m.scope) OVER thread AS before_scope, lag(m.kind = 'chat_message') OVER thread AS is_after_message
    FROM made m WINDOW thread AS (PARTITION BY m.thread ORDER BY m.position)
), followed AS (
    SELECT p.*, CASE WHEN p.thread IS NULL THEN NULL
            WHEN p.before_id IS NULL THEN CASE WHEN last.is_message AND last.scope = p.scope THEN last.item_id END
            WHEN p.is_after_message AND p.before_scope = p.scope THEN p.before_id END AS true_id,
        CASE WHEN p.before_id IS NULL THEN last.content_hash ELSE p.before_hash END AS true_hash
    FROM placed p LEFT JOIN last ON last.thread = p.thread
), meant AS MATERIALIZED (
    SELECT w.*, CASE WHEN NOT w.holds THEN %(topic)s::text
        WHEN w.following IS DISTINCT FROM %(optional)s::text OR (SELECT is_off FROM model) IS NOT TRUE THEN w.following END AS next_topic
    FROM (
        SELECT f.*, f.slot IS NOT NULL AND EXISTS (SELECT 1 FROM model) AND (f.kind <> 'chat_message' OR (
            f.true_id IS NOT DISTINCT FROM f.previous_id AND (f.true_id IS NULL OR f.true_hash = f.previous_hash))) AS holds
        FROM followed f) w
), queued AS (
    INSERT INTO outbox (topic, tenant_id, ref)
    SELECT next_topic, %(tenant_id)s::uuid, item_id FROM meant WHERE next_topic IS NOT NULL ORDER BY ordinal
    RETURNING 1
), embedded AS (
    INSERT INTO vectors (
        tenant_id, item_id, model_id, live, kind, scope, user_id, agent_id, session_id, event_time, embedding, names)
    SELECT %(tenant_id)s::uuid, item_id, %(model_id)s::text, true, kind, scope, user_id, agent_id, session_id, event_time,
        (%(embeddings)s::real[])[slot * %(dimensions)s::integer + 1 : (slot + 1) * %(dimensions)s::integer]::halfvec,
        (%(names)s::text[])[slot + 1]::text[]
    FROM meant WHERE holds
    RETURNING 1
), named AS MATERIALIZED (
    SELECT m.item_id, CASE WHEN m.scope IN ('user', 'session') THEN m.user_id END AS user_id, p.place
    FROM meant m CROSS JOIN LATERAL unnest((%(places)s::text[])[m.slot + 1]::integer[]) AS p (place)
    WHERE m.holds
), known AS MATERIALIZED (
    SELECT g.*, e.entity_id AS known_id
    FROM unnest(%(entity_ids)s::uuid[], %(entity_kinds)s::text[], %(entity_names)s::text[], %(entity_keys)s::text[])
        WITH ORDINALITY AS g (entity_id, kind, name, key, place)
    LEFT JOIN LATERAL (
        SELECT e.entity_id FROM entities e WHERE e.tenant_id = %(tenant_id)s AND e.key = g.key OFFSET 0) e ON true
), met AS (
    -- An entity that another writer adds at this moment comes from the conflict.
    INSERT INTO entities (tenant_id, entity_id, kind, name, key)
    SELECT %(tenant_id)s::uuid, entity_id, kind, name, key FROM known
    WHERE known_id IS NULL AND place IN (SELECT n.place FROM named n) ORDER BY key
    ON CONFLICT (tenant_id, key) DO UPDATE SET name = entities.name
    RETURNING entity_id, key
), identified AS MATERIALIZED (
    -- By its place: joined by key, a plan for few names would compare each mention with all of them.
    SELECT array_agg(COALESCE(k.known_id, met.entity_id) ORDER BY k.place) AS ids
    FROM known k LEFT JOIN met ON k.known_id IS NULL AND met.key = k.key
), mentioned AS (
    INSERT INTO mentions (tenant_id, entity_id, item_id, user_id)
    SELECT %(tenant_id)s::uuid, i.ids[n.place], n.item_id, n.user_id FROM named n CROSS JOIN identified i
    RETURNING 1
)

-- name: insert_items
-- New items; the answer has each one written, in order, with the topic of its next work.
{new_items}
SELECT item_id, next_topic FROM meant ORDER BY ordinal

-- name: find_keys
-- The row of each key, who sees it, and the hash of its text.
SELECT i.owned_by, i.kind, i.source_ref, i.item_id, i.content_hash, i.scope, i.user_id, i.agent_id, i.session_id
FROM unnest(%(owners)s::text[], %(kinds)s::text[], %(source_refs)s::text[]) AS k (owned_by, kind, source_ref)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.owned_by = k.owned_by AND i.kind = k.kind AND i.source_ref = k.source_ref

-- name: replace_item
-- Give a row another text. With a vector by the tenant's only model it keeps the mentions of names that the text still has; without,
-- what was derived from the old text is deleted and made again. The answer is the topic of the next work.
WITH model AS MATERIALIZED (
    SELECT 1 FROM tenants t
    WHERE t.tenant_id = %(tenant_id)s AND t.embedding_model = %(model_id)s::text AND t.embedding_target IS NULL
), changed AS (
    UPDATE items SET
        content = %(content)s, content_hash = %(content_hash)s, event_time = %(event_time)s, payload_key = %(payload_key)s,
        metadata = %(metadata)s, masked = %(masked)s, tsv = %(tsv)s::tsvector, terms = %(terms)s, tokens = %(tokens)s,
        traits = %(traits)s
    WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND anonymized_at IS NULL
    RETURNING item_id, kind, scope, user_id, agent_id, session_id, event_time,
        invalid_at IS NULL AND superseded_by IS NULL AS live, archived_at IS NOT NULL AS archived
), gone AS (
    DELETE FROM vectors WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
        AND (NOT EXISTS (SELECT 1 FROM model) OR model_id <> %(model_id)s::text)
), embedded AS (
    INSERT INTO vectors (
        tenant_id, item_id, model_id, live, archived, kind, scope, user_id, agent_id, session_id, event_time, embedding, names)
    SELECT %(tenant_id)s::uuid, c.item_id, %(model_id)s::text, c.live, c.archived, c.kind, c.scope, c.user_id, c.agent_id,
        c.session_id, c.event_time, %(embedding)s::halfvec, %(entity_keys)s::text[]
    FROM changed c, model
    ON CONFLICT (tenant_id, model_id, item_id) DO UPDATE SET
        embedding = excluded.embedding, names = excluded.names, event_time = excluded.event_time, live = excluded.live,
        archived = excluded.archived
    RETURNING 1
), known AS MATERIALIZED (
    SELECT e.entity_id, e.key FROM entities e, model WHERE e.tenant_id = %(tenant_id)s AND e.key = ANY(%(entity_keys)s::text[])
), unmentioned AS (
    DELETE FROM mentions WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
        AND entity_id NOT IN (SELECT known.entity_id FROM known)
), uncut AS (
    DELETE FROM passages WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
), shortened AS (
    DELETE FROM payloads
    WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND payload_key IS DISTINCT FROM %(payload_key)s::text
), queued AS (
    INSERT INTO outbox (topic, tenant_id, ref)
    SELECT n.topic, %(tenant_id)s::uuid, n.item_id FROM (
        SELECT c.item_id, CASE WHEN EXISTS (SELECT 1 FROM model) THEN %(following)s::text ELSE %(topic)s::text END AS topic
        FROM changed c) n
    WHERE n.topic IS NOT NULL
    RETURNING topic
)
SELECT topic FROM queued

-- name: find_item
-- One item that is not redacted.
SELECT {item_columns} FROM items WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND deleted_at IS NULL AND anonymized_at IS NULL

-- name: find_items
-- The items of these ids that were not redacted meanwhile, in no particular order.
SELECT {item_columns} FROM items
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND deleted_at IS NULL AND anonymized_at IS NULL

-- name: insert_payload
-- The whole body behind a preview; the newest body of a key counts.
INSERT INTO payloads (tenant_id, payload_key, item_id, owned_by, bytes, sha256, media_type, body, object_key)
SELECT i.tenant_id, %(payload_key)s, i.item_id, i.owned_by, %(bytes)s, %(sha256)s, %(media_type)s, %(body)s::bytea,
    %(object_key)s
FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.item_id = %(item_id)s
ON CONFLICT (tenant_id, payload_key) DO UPDATE SET
    bytes = excluded.bytes, sha256 = excluded.sha256, media_type = excluded.media_type, body = excluded.body,
    object_key = excluded.object_key
WHERE payloads.item_id = excluded.item_id
RETURNING 1

-- name: find_payload
-- A body that the identity may see, with its item.
SELECT p.payload_key, p.item_id, p.media_type, p.bytes AS size, p.body, p.object_key
FROM payloads p JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = p.item_id
WHERE p.tenant_id = %(tenant_id)s AND p.payload_key = %(payload_key)s
    AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
    AND (i.scope = 'tenant' OR (i.scope = 'user' AND i.user_id = %(user_id)s)
        OR (i.scope = 'agent' AND i.agent_id = %(agent_id)s)
        OR (i.scope = 'session' AND i.owned_by = %(owned_by)s AND i.session_id = ANY(%(session_ids)s)) OR %(is_admin)s)

-- name: line_of
-- Every session of an owner's line, newest first: a session continues in its successor.
SELECT session_id FROM sessions
WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND root_id = (
    SELECT root_id FROM sessions
    WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s)
ORDER BY session_ref DESC LIMIT %(limit)s

-- name: discard_object
-- A body that no row points to.
INSERT INTO discarded_objects (tenant_id, object_key) VALUES (%(tenant_id)s, %(object_key)s)
ON CONFLICT (tenant_id, object_key) DO NOTHING

-- name: find_buried
-- The redacted row of a forgotten item.
SELECT b.item_id FROM tenants n
CROSS JOIN jsonb_populate_record(NULL::items, %(item)s) AS g
JOIN tombstones b ON b.tenant_id = %(tenant_id)s AND b.hash = ANY(item_hashes(
    n.salt, g.kind, g.scope, g.user_id, g.agent_id, g.session_id, g.source_ref, g.event_time, g.content_hash))
WHERE n.tenant_id = %(tenant_id)s AND b.item_id IS NOT NULL LIMIT 1

-- name: collection
-- The number of items that recall may show, the number without repetitions, the mean number of terms of these, and the number
-- of passages.
-- A fact repeats the message that it was taken from, while that message may be shown. Of a large tenant only so many items are
-- counted: a million take longer than a question may wait.
SELECT count(*) AS items, count(*) FILTER (WHERE NOT r.is_repeated) AS distinct_items,
    COALESCE(avg(octet_length(i.terms) / 4) FILTER (WHERE NOT r.is_repeated), 0)::float8 AS mean_length,
    (SELECT count(*) FROM passages p WHERE p.tenant_id = %(tenant_id)s) AS passages
-- Facts are looked up singly: as a join, a plan from before an import was analysed would scan all of it for each.
FROM (
    SELECT item_id, kind, terms FROM items
    WHERE tenant_id = %(tenant_id)s AND invalid_at IS NULL AND superseded_by IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
    LIMIT %(most)s) i CROSS JOIN LATERAL (
    SELECT i.kind = 'fact' AND EXISTS (
        SELECT 1 FROM evidence e JOIN items s ON s.tenant_id = %(tenant_id)s AND s.item_id = e.source_item_id
            AND s.invalid_at IS NULL AND s.superseded_by IS NULL AND s.deleted_at IS NULL AND s.anonymized_at IS NULL
        WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id OFFSET 0) AS is_repeated) r

-- name: written_count
-- The number of items that recall may show, as the writes have counted it.
SELECT COALESCE(sum(items), 0)::bigint AS items FROM item_counts WHERE tenant_id = %(tenant_id)s AND state IN ('live', 'archived')

-- name: document_frequencies
-- In how many items without repetitions and in how many passages each term occurs; beyond the cap a term counts as common.
SELECT (SELECT count(*) FROM (
    SELECT 1 FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.tsv @@ t.query AND (i.kind <> 'fact' OR NOT EXISTS (
        SELECT 1 FROM evidence e JOIN items s ON s.tenant_id = %(tenant_id)s AND s.item_id = e.source_item_id
            AND s.invalid_at IS NULL AND s.superseded_by IS NULL AND s.deleted_at IS NULL AND s.anonymized_at IS NULL
        WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id OFFSET 0)) LIMIT %(cap)s) s)
    + (SELECT count(*) FROM (
        SELECT 1 FROM passages p WHERE p.tenant_id = %(tenant_id)s AND p.tsv @@ t.query LIMIT %(cap)s) s) AS frequency
FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS t (query, ordinal) ORDER BY ordinal

-- name: fact_states
-- The states of the items with these references of these owners.
SELECT i.source_ref, i.item_id, i.live, i.invalid_at, i.superseded_by, i.archived_at IS NOT NULL AS is_archived,
    i.deleted_at IS NOT NULL OR i.anonymized_at IS NOT NULL AS is_forgotten
FROM unnest(%(owners)s::text[], %(source_refs)s::text[]) AS k (owned_by, source_ref)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.owned_by = k.owned_by AND i.kind = %(kind)s AND i.source_ref = k.source_ref

-- name: affirm_fact
-- A fact that was taken from a message and is stated now lasts, and gets the labels that it lacked.
UPDATE items SET tier = 'persistent', subject = COALESCE(subject, %(subject)s), predicate = COALESCE(predicate, %(predicate)s),
    object = COALESCE(object, %(object)s), category = COALESCE(category, %(category)s)
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND kind = 'fact' AND trust IN ('user', 'agent')
    AND invalid_at IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL

-- name: set_aside
-- Ended rows give up their reference to a row that states the same again; each gets one of its own.
UPDATE items SET source_ref = source_ref || '@' || item_id
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND source_ref = ANY(%(source_refs)s) AND NOT live

-- name: set_ref
-- The reference that finds a row when it is stated again.
UPDATE items SET source_ref = %(source_ref)s WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s

-- name: lock_items
-- Rows to change together, locked in the order of their ids so that no two writers wait for each other.
SELECT item_id, invalid_at IS NULL AND superseded_by IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL AS holds,
    valid_at, invalid_at, superseded_by, pinned_at IS NOT NULL AS is_pinned, deleted_at IS NOT NULL OR anonymized_at IS NOT NULL AS is_forgotten
FROM items WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) ORDER BY item_id FOR UPDATE

-- name: end_items
-- Rows that stop being true, each at its moment and by its successor, with their vectors.
WITH given AS (
    SELECT * FROM unnest(%(item_ids)s::uuid[], %(successors)s::uuid[], %(moments)s::timestamptz[])
        AS g (item_id, superseded_by, invalid_at)
), hidden AS (
    UPDATE vectors v SET live = false FROM given g WHERE v.tenant_id = %(tenant_id)s AND v.item_id = g.item_id AND v.live
)
UPDATE items i SET invalid_at = g.invalid_at, superseded_by = g.superseded_by
FROM given g WHERE i.tenant_id = %(tenant_id)s AND i.item_id = g.item_id

-- name: revive_item
-- A row that is true again, with its vectors.
WITH shown AS (
    UPDATE vectors SET live = true WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
)
UPDATE items SET invalid_at = NULL, superseded_by = NULL WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s

-- name: unarchive_items
-- Archived rows are shown unasked again, with their vectors; one that another transaction is changing stays.
WITH shown AS (
    UPDATE items SET archived_at = NULL
    WHERE tenant_id = %(tenant_id)s AND item_id IN (
        SELECT i.item_id FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.archived_at IS NOT NULL
            AND i.invalid_at IS NULL AND i.superseded_by IS NULL AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
        -- Counts of use refer to the row meanwhile, and must not wait for it.
        ORDER BY i.item_id FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING item_id
)
UPDATE vectors v SET archived = false FROM shown s WHERE v.tenant_id = %(tenant_id)s AND v.item_id = s.item_id

-- name: history
-- Every version of an item, oldest first.
WITH RECURSIVE later AS (
    SELECT item_id, superseded_by FROM items WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
    UNION
    SELECT i.item_id, i.superseded_by FROM later l
    JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = l.superseded_by
), line AS (
    SELECT item_id FROM later
    UNION
    SELECT i.item_id FROM line l JOIN items i ON i.tenant_id = %(tenant_id)s AND i.superseded_by = l.item_id
)
SELECT {i.item_columns}
FROM items i JOIN line ON line.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s
ORDER BY i.valid_at, i.item_id LIMIT %(limit)s
