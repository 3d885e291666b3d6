-- name: list_due
-- Sessions that were closed before the moment given and not consolidated yet, in the order they were closed.
SELECT session_ref, closed_at FROM sessions
WHERE tenant_id = %(tenant_id)s AND status = 'closed' AND consolidated_at IS NULL AND closed_at <= %(before)s
    AND (closed_at, session_ref) > (%(after)s, %(after_ref)s)
ORDER BY closed_at, session_ref LIMIT %(limit)s

-- name: lock_closed
-- A closed session that was not consolidated yet, locked; its ids, and its lasting summaries.
SELECT session_id, user_id, agent_id, folds FROM sessions
WHERE tenant_id = %(tenant_id)s AND session_ref = %(session_ref)s AND status = 'closed' AND consolidated_at IS NULL
FOR UPDATE

-- name: list_observed
-- What was said and done in a session by carriers that may be learned from, in order.
SELECT item_id, kind, scope, trust, speaker, content, event_time FROM items
WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s AND kind IN ('chat_message', 'episode')
    AND trust IN ('user', 'agent') AND invalid_at IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
    AND shared_from IS NULL AND COALESCE(metadata ->> 'recalled', 'false') <> 'true'
ORDER BY position, item_id LIMIT %(limit)s

-- name: list_earlier
-- What an agent did in other sessions lately, oldest first.
SELECT * FROM (
    SELECT item_id, kind, scope, trust, speaker, content, event_time FROM items
    WHERE tenant_id = %(tenant_id)s AND kind = 'episode' AND agent_id = %(agent_id)s AND trust IN ('user', 'agent')
        AND session_id IS DISTINCT FROM %(session_id)s AND invalid_at IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
        AND (scope = 'agent' OR (scope = 'user' AND user_id = %(user_id)s))
    ORDER BY item_id DESC LIMIT %(limit)s) newest
ORDER BY event_time, item_id

-- name: same_topic
-- Live patterns of the same owner about the same thing.
SELECT i.item_id, i.valid_at FROM items m
JOIN items i ON i.tenant_id = m.tenant_id AND i.subject = m.subject AND i.predicate = m.predicate AND i.kind = m.kind
    AND i.scope = m.scope AND i.item_id <> m.item_id AND i.live
    AND ((i.scope = 'user' AND i.user_id = m.user_id) OR (i.scope = 'agent' AND i.agent_id = m.agent_id))
WHERE m.tenant_id = %(tenant_id)s AND m.item_id = %(item_id)s AND m.live

-- name: archive_sources
-- Take episodes out of recall that something lasting rests on now; their vectors follow.
WITH archived AS (
    UPDATE items SET archived_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND kind = 'episode' AND live AND pinned_at IS NULL
    RETURNING item_id
), hidden AS (
    UPDATE vectors v SET live = false FROM archived a WHERE v.tenant_id = %(tenant_id)s AND v.item_id = a.item_id
)
SELECT item_id FROM archived

-- name: promote_summaries
-- Let summaries of a session last, as far as all that they tell came from trusted carriers.
UPDATE items SET tier = 'persistent'
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND kind = 'session_summary' AND tier = 'recent' AND live
    AND trust IN ('user', 'agent')
RETURNING item_id

-- name: promote_session_facts
-- Let facts of a session last that separate trusted sources bear out.
UPDATE items i SET tier = 'persistent', session_id = NULL
WHERE i.tenant_id = %(tenant_id)s AND i.session_id = %(session_id)s AND i.kind = 'fact' AND i.tier = 'session' AND i.live
    AND i.anonymized_at IS NULL  -- told twice, so that the index of transient items is used
    AND i.trust IN ('user', 'agent') AND (
        SELECT count(DISTINCT COALESCE(s.session_id, s.item_id::text)) FROM evidence e
        JOIN items s ON s.tenant_id = e.tenant_id AND s.item_id = e.source_item_id
        WHERE e.tenant_id = i.tenant_id AND e.item_id = i.item_id AND s.trust IN ('user', 'agent')) >= %(sources)s
RETURNING i.item_id

-- name: mark_consolidated
-- What is worth keeping was taken from a session.
UPDATE sessions SET consolidated_at = %(now)s WHERE tenant_id = %(tenant_id)s AND session_ref = %(session_ref)s

-- name: find_mark
-- Up to which item the tenant's memory was compared with itself.
SELECT examined_to FROM reviews WHERE tenant_id = %(tenant_id)s

-- name: save_mark
-- Note up to which item the tenant's memory was compared with itself.
INSERT INTO reviews (tenant_id, examined_to, reviewed_at) VALUES (%(tenant_id)s, %(examined_to)s, %(now)s)
ON CONFLICT (tenant_id) DO UPDATE SET
    examined_to = GREATEST(reviews.examined_to, excluded.examined_to), reviewed_at = excluded.reviewed_at

-- name: list_lasting
-- Live facts and procedures of the tenant's own, by id, a page at a time.
SELECT item_id FROM items
WHERE tenant_id = %(tenant_id)s AND item_id > %(after)s AND kind IN ('fact', 'procedure') AND live AND shared_from IS NULL
ORDER BY item_id LIMIT %(limit)s

-- name: weigh
-- Items as they are weighed against each other.
SELECT i.item_id, i.content, i.trust, i.valid_at, i.created_at, i.confidence, i.pinned_at IS NOT NULL AS is_pinned,
    i.speaker, i.subject, i.predicate, i.object, COALESCE(a.times, 0) AS accesses, a.last_at,
    (SELECT count(*) FROM evidence e WHERE e.tenant_id = i.tenant_id AND e.item_id = i.item_id) AS sources,
    (SELECT count(*) FROM feedback f WHERE f.tenant_id = i.tenant_id AND f.item_id = i.item_id AND f.opinion = 'useful') AS useful,
    (SELECT count(*) FROM feedback f WHERE f.tenant_id = i.tenant_id AND f.item_id = i.item_id AND f.opinion = 'wrong') AS wrong,
    EXISTS (SELECT FROM holds h WHERE h.tenant_id = i.tenant_id AND h.item_id = i.item_id) AS is_held
FROM items i LEFT JOIN access a ON a.tenant_id = i.tenant_id AND a.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.live AND i.shared_from IS NULL

-- name: insert_proposal
-- A proposal with its inputs as they stand; nothing when it is open or was refused, or when an input is gone.
WITH found AS (
    SELECT i.item_id, i.tier, i.confidence, (
        SELECT count(*) FROM evidence e WHERE e.tenant_id = i.tenant_id AND e.item_id = i.item_id) AS sources
    FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(inputs)s) AND i.live AND i.shared_from IS NULL
), made AS (
    INSERT INTO proposals (tenant_id, proposal_id, kind, rule, key, successor_id, inputs, proposed_at)
    SELECT %(tenant_id)s, %(proposal_id)s, %(kind)s, %(rule)s, %(key)s, %(successor_id)s, count(*), %(now)s FROM found
    HAVING count(*) = cardinality(%(inputs)s::uuid[])
    ON CONFLICT (tenant_id, key) WHERE status IN ('open', 'rejected', 'undone') DO NOTHING
    RETURNING proposal_id
)
INSERT INTO proposal_inputs (tenant_id, proposal_id, item_id, tier, sources, confidence)
SELECT %(tenant_id)s, m.proposal_id, f.item_id, f.tier, f.sources, f.confidence FROM made m CROSS JOIN found f

-- name: find_proposal
-- One proposal with its inputs.
SELECT p.proposal_id, p.kind, p.status, p.rule, p.successor_id, p.proposed_at, p.decided_at, p.decided_by, p.reason, ARRAY(
    SELECT n.item_id FROM proposal_inputs n WHERE n.tenant_id = p.tenant_id AND n.proposal_id = p.proposal_id
        AND n.item_id IS DISTINCT FROM p.successor_id ORDER BY n.item_id) AS item_ids
FROM proposals p WHERE p.tenant_id = %(tenant_id)s AND p.proposal_id = %(proposal_id)s

-- name: lock_proposal
-- A proposal that nobody else decides meanwhile: how many inputs it had, and the evidence that accepting it made.
SELECT inputs, links_made FROM proposals
WHERE tenant_id = %(tenant_id)s AND proposal_id = %(proposal_id)s FOR UPDATE

-- name: list_proposals
-- Proposals, newest first, a page at a time.
SELECT p.proposal_id, p.kind, p.status, p.rule, p.successor_id, p.proposed_at, p.decided_at, p.decided_by, p.reason, ARRAY(
    SELECT n.item_id FROM proposal_inputs n WHERE n.tenant_id = p.tenant_id AND n.proposal_id = p.proposal_id
        AND n.item_id IS DISTINCT FROM p.successor_id ORDER BY n.item_id) AS item_ids
FROM proposals p
WHERE p.tenant_id = %(tenant_id)s AND p.proposal_id < %(before)s AND (%(status)s::text IS NULL OR p.status = %(status)s)
    AND (%(kind)s::text IS NULL OR p.kind = %(kind)s)
ORDER BY p.proposal_id DESC LIMIT %(limit)s

-- name: inputs_of
-- The inputs of a proposal as they stood when it was made.
SELECT item_id, tier, sources, confidence FROM proposal_inputs
WHERE tenant_id = %(tenant_id)s AND proposal_id = %(proposal_id)s ORDER BY item_id

-- name: inputs_now
-- How items stand now; they are locked before.
SELECT i.item_id, i.live, i.pinned_at IS NOT NULL AS is_pinned, i.tier, i.confidence, a.last_at,
    EXISTS (SELECT FROM holds h WHERE h.tenant_id = i.tenant_id AND h.item_id = i.item_id) AS is_held,
    (SELECT count(*) FROM evidence e WHERE e.tenant_id = i.tenant_id AND e.item_id = i.item_id) AS sources
FROM items i LEFT JOIN access a ON a.tenant_id = i.tenant_id AND a.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s)

-- name: decide
-- What became of a proposal, and who said so.
UPDATE proposals SET status = %(status)s, decided_at = %(now)s, decided_by = %(decided_by)s, reason = %(reason)s,
    links_made = %(links_made)s
WHERE tenant_id = %(tenant_id)s AND proposal_id = %(proposal_id)s

-- name: lend_links
-- Let an item rest on what others rested on; the sources that it did not rest on before.
INSERT INTO evidence (tenant_id, item_id, source_item_id, event_time)
SELECT DISTINCT ON (source_item_id) tenant_id, %(successor_id)s::uuid, source_item_id, event_time FROM evidence
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND source_item_id <> %(successor_id)s
ORDER BY source_item_id, event_time
ON CONFLICT (tenant_id, item_id, source_item_id) DO NOTHING
RETURNING source_item_id

-- name: return_links
-- Let an item no longer rest on what it was lent.
DELETE FROM evidence
WHERE tenant_id = %(tenant_id)s AND item_id = %(successor_id)s AND source_item_id = ANY(%(source_ids)s)

-- name: set_tier
-- Let items last, or let them fade again.
UPDATE items SET tier = %(tier)s
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND live AND tier = %(was)s
RETURNING item_id
