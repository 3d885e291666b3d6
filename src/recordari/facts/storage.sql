-- name: sources_to_extract
-- Messages whose facts are not extracted yet, oldest first.
SELECT {item_columns} FROM items
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND kind = 'chat_message' AND trust = ANY(%(trusts)s)
    AND extracted_at IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL AND payload_key IS NULL
    AND COALESCE(user_id, agent_id) IS NOT NULL AND COALESCE(metadata ->> 'recalled', 'false') <> 'true'
ORDER BY event_time, item_id

-- name: said_before
-- The last messages of the sessions of these messages before each of them, oldest first.
SELECT s.item_id, b.content, b.trust = s.trust AND b.speaker IS NOT DISTINCT FROM s.speaker AS is_own
FROM items s CROSS JOIN LATERAL (
    SELECT i.content, i.trust, i.speaker, i.event_time, i.item_id FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.session_id = s.session_id AND i.owned_by = s.owned_by AND i.kind = 'chat_message'
        AND (i.event_time, i.item_id) < (s.event_time, s.item_id) AND i.event_time > s.event_time - interval '1 day'
        AND i.deleted_at IS NULL AND i.anonymized_at IS NULL AND i.payload_key IS NULL
    ORDER BY i.event_time DESC, i.item_id DESC LIMIT %(limit)s
) b
WHERE s.tenant_id = %(tenant_id)s AND s.item_id = ANY(%(item_ids)s)
ORDER BY s.item_id, b.event_time, b.item_id

-- name: mark_extracted
-- The facts of these messages are extracted.
UPDATE items SET extracted_at = %(now)s WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)

-- name: find_copies
-- Which of these texts copy a protected source, by their number from 0.
SELECT (g.ordinal - 1)::integer AS number
FROM tenants t CROSS JOIN unnest(%(contents)s::text[]) WITH ORDINALITY AS g (content, ordinal)
WHERE t.tenant_id = %(tenant_id)s AND copies_protected(t.tenant_id, NULL, g.content) ORDER BY g.ordinal

-- name: list_comparable
-- Current facts that are long enough to be a copy, and whether they copy a protected source; by id, after the one given.
WITH page AS MATERIALIZED (
    SELECT i.item_id, i.source_id, i.content FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id > %(after)s AND i.kind = 'fact' AND length(i.content) >= %(least)s
        AND i.shared_from IS NULL AND i.invalid_at IS NULL AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
    ORDER BY i.item_id LIMIT %(limit)s
)
SELECT p.item_id, copies_protected(%(tenant_id)s::uuid, p.source_id, p.content) AS is_copy FROM page p ORDER BY p.item_id

-- name: same_words
-- Every row, ended or not, with the same text and the same owner.
SELECT i.item_id FROM items m JOIN items i ON i.tenant_id = %(tenant_id)s AND i.kind = m.kind AND i.scope = m.scope
    AND i.content_hash = m.content_hash AND i.anonymized_at IS NULL
    AND (i.scope = 'tenant' OR (i.scope = 'user' AND i.user_id = m.user_id)
        OR (i.scope = 'agent' AND i.agent_id = m.agent_id) OR (i.scope = 'session' AND i.session_id = m.session_id))
WHERE m.tenant_id = %(tenant_id)s AND m.item_id = %(item_id)s AND m.kind = 'fact'

-- name: facts_to_judge
-- Live facts and procedures that are not judged yet.
SELECT {item_columns}, pinned_at IS NOT NULL AS is_pinned FROM items
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND kind IN ('fact', 'procedure') AND judged_at IS NULL
    AND live
ORDER BY valid_at, item_id

-- name: near_facts
-- For each of these facts, others of its owner that hold, archived too, and are near in meaning, or have its subject and
-- predicate. Each is looked up by LATERAL … OFFSET 0: a plan for all of them might read the whole tenant.
WITH mine AS MATERIALIZED (
    SELECT item_id, scope, user_id, agent_id, subject, predicate FROM items
    WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
), near AS (
    SELECT g.item_id AS of_id, n.item_id FROM mine g
    CROSS JOIN LATERAL (
        SELECT v.embedding, v.owner FROM vectors v
        WHERE v.tenant_id = %(tenant_id)s AND v.model_id = %(model_id)s AND v.item_id = g.item_id OFFSET 0) m
    CROSS JOIN LATERAL (
        SELECT v.item_id, v.embedding <=> m.embedding AS distance FROM vectors v
        WHERE v.tenant_id = %(tenant_id)s AND v.model_id = %(model_id)s AND v.live
            AND v.owner COLLATE "C" = m.owner AND v.kind IN ('fact', 'procedure') AND v.item_id <> g.item_id
        ORDER BY distance LIMIT %(most)s
    ) n
    WHERE n.distance < %(distance)s
), claimed AS (
    SELECT m.item_id AS of_id, c.item_id FROM mine m
    CROSS JOIN LATERAL (
        SELECT i.item_id FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.subject = m.subject AND i.predicate = m.predicate AND i.item_id <> m.item_id
            AND i.kind IN ('fact', 'procedure') AND i.scope = m.scope
            AND i.invalid_at IS NULL AND i.superseded_by IS NULL AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
            AND (i.scope = 'tenant' OR (i.scope = 'user' AND i.user_id = m.user_id)
                OR (i.scope = 'agent' AND i.agent_id = m.agent_id))
        ORDER BY i.valid_at DESC LIMIT %(most)s
    ) c
)
SELECT p.of_id, {i.item_columns}, i.is_pinned FROM (SELECT of_id, item_id FROM near UNION SELECT of_id, item_id FROM claimed) p
CROSS JOIN LATERAL (
    SELECT i.*, i.pinned_at IS NOT NULL AS is_pinned FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = p.item_id
        AND i.invalid_at IS NULL AND i.superseded_by IS NULL AND i.deleted_at IS NULL AND i.anonymized_at IS NULL OFFSET 0) i
ORDER BY i.valid_at DESC, i.item_id

-- name: list_rulings
-- Facts that were ended by others, newest first, with both texts; with a user only those of that user.
SELECT a.audit_id AS ruling_id, a.at, COALESCE(a.details ->> 'rule', '') AS rule, COALESCE(a.details ->> 'judge', '') AS judge,
    a.subject_id AS item_id, COALESCE(a.details ->> 'superseded_by', '') AS superseded_by, o.content, n.content AS successor,
    EXISTS (SELECT 1 FROM audit u WHERE u.tenant_id = %(tenant_id)s AND u.subject_kind = 'item' AND u.subject_id = a.subject_id
        AND u.action = 'ruling.undo' AND u.details ->> 'ruling' = a.audit_id::text) AS is_undone
FROM audit a
LEFT JOIN items o ON o.tenant_id = %(tenant_id)s AND o.deleted_at IS NULL AND o.anonymized_at IS NULL
    AND o.item_id = CASE WHEN a.subject_id ~ '^[0-9a-f-]{36}$' THEN a.subject_id::uuid END
LEFT JOIN items n ON n.tenant_id = %(tenant_id)s AND n.deleted_at IS NULL AND n.anonymized_at IS NULL
    AND n.item_id = CASE WHEN a.details ->> 'superseded_by' ~ '^[0-9a-f-]{36}$'
        THEN (a.details ->> 'superseded_by')::uuid END
WHERE a.tenant_id = %(tenant_id)s AND a.action = 'fact.supersede' AND a.audit_id < %(before)s
    AND (%(of_user)s::text IS NULL OR o.user_id = %(of_user)s)
ORDER BY a.audit_id DESC LIMIT %(limit)s

-- name: find_ruling
-- The ruling with this id, of a fact that still has its id.
SELECT audit_id, at, actor, action, subject_kind, subject_id, reason, details FROM audit
WHERE tenant_id = %(tenant_id)s AND audit_id = %(ruling_id)s AND action = 'fact.supersede'
    AND subject_id ~ '^[0-9a-f-]{36}$'

-- name: is_undone
-- Whether a ruling was undone.
SELECT EXISTS (SELECT 1 FROM audit WHERE tenant_id = %(tenant_id)s AND subject_kind = 'item' AND subject_id = %(item_id)s
    AND action = 'ruling.undo' AND details ->> 'ruling' = %(ruling_id)s)

-- name: predecessors
-- The facts that these superseded, directly or by others in between.
WITH RECURSIVE chain AS (
    SELECT item_id FROM items WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)
    UNION
    SELECT i.item_id FROM chain c JOIN items i ON i.tenant_id = %(tenant_id)s AND i.superseded_by = c.item_id
)
SELECT {i.item_columns}, i.pinned_at IS NOT NULL AS is_pinned FROM items i JOIN chain c ON c.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.item_id <> ALL(%(item_ids)s) AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
ORDER BY i.valid_at DESC LIMIT %(most)s

-- name: mark_judged
-- These are judged.
UPDATE items SET judged_at = %(now)s WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s)

-- name: set_pinned
-- Pin or unpin an item; the row is written only if that changes.
UPDATE items SET pinned_at = %(pinned_at)s
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND (pinned_at IS NULL) <> (%(pinned_at)s::timestamptz IS NULL)

-- name: set_confidence
-- The confidence of an item after feedback.
UPDATE items SET confidence = %(confidence)s WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s

-- name: list_items
-- Items that the identity may see, by filters, newest first, a page at a time. An administrator sees everything of the user
-- and agent that it names, and of all of them where it names none.
SELECT {item_columns} FROM items
WHERE tenant_id = %(tenant_id)s AND item_id < %(before)s AND deleted_at IS NULL AND anonymized_at IS NULL
    AND (scope = 'tenant' OR (scope = 'user' AND user_id = %(user_id)s) OR (scope = 'agent' AND agent_id = %(agent_id)s)
        OR (scope = 'session' AND owned_by = %(owned_by)s AND session_id = ANY(%(session_ids)s))
        OR (%(is_admin)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
            AND (%(agent_id)s::text IS NULL OR agent_id = %(agent_id)s)))
    AND kind = ANY(%(kinds)s)
    AND (%(scope)s::text IS NULL OR scope = %(scope)s)
    AND (%(category)s::text IS NULL OR category = %(category)s)
    AND (%(subject)s::text IS NULL OR subject = %(subject)s)
    AND (%(trust)s::text IS NULL OR trust = %(trust)s)
    AND (%(tier)s::text IS NULL OR tier = %(tier)s)
    AND (%(of_session)s::text IS NULL OR session_id = %(of_session)s)
    AND (%(state)s = 'any' OR (%(state)s = 'live' AND NOT %(is_past)s AND live)
        OR (%(is_past)s AND valid_at <= %(as_of)s AND created_at <= %(known_at)s
            AND (invalid_at IS NULL OR invalid_at > %(as_of)s OR retired_at > %(known_at)s)) OR (%(state)s = 'superseded' AND superseded_by IS NOT NULL)
        OR (%(state)s = 'invalid' AND invalid_at IS NOT NULL AND superseded_by IS NULL)
        OR (%(state)s = 'archived' AND archived_at IS NOT NULL))
    AND (NOT %(pinned)s OR pinned_at IS NOT NULL)
    AND event_time >= %(since)s AND event_time < %(until)s
ORDER BY item_id DESC LIMIT %(limit)s

-- name: insert_links
-- Items and their sources; an existing link stays.
INSERT INTO evidence (tenant_id, item_id, source_item_id, event_time)
SELECT DISTINCT %(tenant_id)s::uuid, g.item_id, g.source_item_id, g.event_time
FROM unnest(%(item_ids)s::uuid[], %(source_ids)s::uuid[], %(event_times)s::timestamptz[])
    AS g (item_id, source_item_id, event_time)
WHERE g.item_id <> g.source_item_id
ON CONFLICT (tenant_id, item_id, source_item_id) DO NOTHING
RETURNING 1

-- name: copy_links
-- A new version has the sources of the old one.
INSERT INTO evidence (tenant_id, item_id, source_item_id, event_time)
SELECT tenant_id, %(item_id)s, source_item_id, event_time FROM evidence
WHERE tenant_id = %(tenant_id)s AND item_id = %(from_id)s AND source_item_id <> %(item_id)s
ON CONFLICT (tenant_id, item_id, source_item_id) DO NOTHING
RETURNING 1

-- name: sources_of
-- The sources of an item, oldest first.
SELECT e.source_item_id AS item_id, e.event_time, i.session_id
FROM evidence e JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = e.source_item_id
WHERE e.tenant_id = %(tenant_id)s AND e.item_id = %(item_id)s
ORDER BY e.event_time, e.source_item_id LIMIT %(limit)s

-- name: led_to
-- The items that rest directly on an item, newest first.
SELECT item_id FROM evidence WHERE tenant_id = %(tenant_id)s AND source_item_id = %(item_id)s
ORDER BY item_id DESC LIMIT %(limit)s

-- name: derived_from
-- Every item that rests on these, directly or by others in between, and whether on these alone.
WITH RECURSIVE derived AS (
    SELECT item_id FROM evidence WHERE tenant_id = %(tenant_id)s AND source_item_id = ANY(%(item_ids)s)
    UNION
    SELECT e.item_id FROM derived d JOIN evidence e ON e.tenant_id = %(tenant_id)s AND e.source_item_id = d.item_id
)
SELECT d.item_id, NOT EXISTS (
    SELECT 1 FROM evidence e WHERE e.tenant_id = %(tenant_id)s AND e.item_id = d.item_id
        AND e.source_item_id <> ALL(%(item_ids)s) AND e.source_item_id NOT IN (SELECT item_id FROM derived)) AS is_orphan
FROM derived d ORDER BY d.item_id

-- name: promote_corroborated
-- Facts that a person said in several sessions become persistent; facts of other carriers need a review.
UPDATE items i SET tier = 'persistent'
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.kind = 'fact' AND i.tier <> 'persistent'
    AND i.trust = 'user' AND (
        SELECT count(DISTINCT session_thread(owner_of(s.user_id, s.agent_id), s.session_id)) FROM evidence e
        JOIN items s ON s.tenant_id = %(tenant_id)s AND s.item_id = e.source_item_id
        WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id AND s.trust = 'user') >= %(sessions)s
RETURNING i.item_id

-- name: save_feedback
-- An opinion of an item; returns the earlier one of the same person.
WITH before AS MATERIALIZED (
    SELECT opinion FROM feedback
    WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND given_by = %(given_by)s
), saved AS (
    INSERT INTO feedback (tenant_id, item_id, given_by, opinion, given_at)
    VALUES (%(tenant_id)s, %(item_id)s, %(given_by)s, %(opinion)s, %(now)s)
    ON CONFLICT (tenant_id, item_id, given_by) DO UPDATE SET opinion = excluded.opinion, given_at = excluded.given_at
)
SELECT opinion FROM before

-- name: count_feedback
-- The numbers of useful and of wrong opinions.
SELECT count(*) FILTER (WHERE opinion = 'useful') AS useful, count(*) FILTER (WHERE opinion = 'wrong') AS wrong
FROM feedback WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
