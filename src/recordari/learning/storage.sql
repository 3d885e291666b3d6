-- name: list_due
-- Sessions that were closed before a moment and are not consolidated, in the order they were closed.
SELECT session_ref, closed_at FROM sessions
WHERE tenant_id = %(tenant_id)s AND status = 'closed' AND consolidated_at IS NULL AND closed_at <= %(before)s
    AND (closed_at, session_ref) > (%(after)s, %(after_ref)s)
ORDER BY closed_at, session_ref LIMIT %(limit)s

-- name: lock_closed
-- A closed session that is not consolidated, locked, with its rolling and its lasting summaries.
SELECT session_id, user_id, agent_id, summary_id, folds FROM sessions
WHERE tenant_id = %(tenant_id)s AND session_ref = %(session_ref)s AND status = 'closed' AND consolidated_at IS NULL
FOR UPDATE

-- name: list_observed
-- Messages and episodes of a session by trusted carriers, in order.
SELECT item_id, kind, scope, trust, speaker, content, event_time, session_id AS session FROM items
WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s AND kind IN ('chat_message', 'episode')
    AND trust IN ('user', 'agent') AND invalid_at IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
    AND shared_from IS NULL AND COALESCE(metadata ->> 'recalled', 'false') <> 'true'
ORDER BY position, item_id LIMIT %(limit)s

-- name: list_earlier
-- The latest episodes of an agent in other sessions, oldest first.
SELECT * FROM (
    SELECT item_id, kind, scope, trust, speaker, content, event_time, session_id AS session FROM items
    WHERE tenant_id = %(tenant_id)s AND kind = 'episode' AND agent_id = %(agent_id)s AND trust IN ('user', 'agent')
        AND thread IS DISTINCT FROM %(thread)s AND invalid_at IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
        AND (scope = 'agent' OR (scope = 'user' AND user_id = %(user_id)s))
    ORDER BY item_id DESC LIMIT %(limit)s) newest
ORDER BY event_time, item_id

-- name: list_runs_of_session
-- The runs of a session that have ended, with the names of the tools they called.
SELECT r.run_id, r.status, r.output, ARRAY(
    SELECT c.name FROM tool_calls c
    WHERE c.tenant_id = %(tenant_id)s AND c.run_id = r.run_id AND c.owned_by = r.owned_by ORDER BY c.number) AS calls, ARRAY(
    SELECT c.name FROM tool_calls c
    WHERE c.tenant_id = %(tenant_id)s AND c.run_id = r.run_id AND c.owned_by = r.owned_by AND c.error IS NOT NULL) AS failed
FROM runs r
WHERE r.tenant_id = %(tenant_id)s AND r.session_id = %(session_id)s AND r.owned_by = %(owned_by)s AND r.status <> 'running'
ORDER BY r.run_ref LIMIT %(limit)s

-- name: list_wishes
-- The live wishes of a user, and since when each holds; pinned ones are left out.
SELECT item_id, content, valid_at FROM items
WHERE tenant_id = %(tenant_id)s AND kind = 'procedure' AND scope = 'user' AND user_id = %(user_id)s AND live
    AND category = 'preference' AND pinned_at IS NULL AND shared_from IS NULL
ORDER BY item_id DESC LIMIT %(limit)s

-- name: same_topic
-- Live patterns of the same owner about the same topic.
SELECT i.item_id, i.valid_at FROM items m
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.subject = m.subject AND i.predicate = m.predicate AND i.kind = m.kind
    AND i.scope = m.scope AND i.item_id <> m.item_id AND i.live
    AND ((i.scope = 'user' AND i.user_id = m.user_id) OR (i.scope = 'agent' AND i.agent_id = m.agent_id))
WHERE m.tenant_id = %(tenant_id)s AND m.item_id = %(item_id)s AND m.live

-- name: archive_items
-- Take items of a kind out of what is shown unasked: a procedure rests on them now, or lasting summaries say the same.
WITH archived AS (
    UPDATE items SET archived_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND kind = %(kind)s AND live AND pinned_at IS NULL
    RETURNING item_id
), marked AS (
    UPDATE vectors v SET archived = true FROM archived a WHERE v.tenant_id = %(tenant_id)s AND v.item_id = a.item_id
)
SELECT item_id FROM archived

-- name: promote_summaries
-- Make summaries persistent whose text came from trusted carriers alone.
UPDATE items SET tier = 'persistent'
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND kind = 'session_summary' AND tier = 'recent' AND live
    AND trust IN ('user', 'agent')
RETURNING item_id

-- name: promote_session_facts
-- Make facts of a session persistent that have enough separate trusted sources.
UPDATE items i SET tier = 'persistent', session_id = NULL
WHERE i.tenant_id = %(tenant_id)s AND i.session_id = %(session_id)s AND owner_of(i.user_id, i.agent_id) = %(owned_by)s
    AND i.kind = 'fact' AND i.tier = 'session' AND i.live
    AND i.anonymized_at IS NULL  -- repeated, so that the index of transient items is used
    AND i.trust IN ('user', 'agent') AND (
        SELECT count(DISTINCT COALESCE(session_thread(owner_of(s.user_id, s.agent_id), s.session_id), s.item_id::text))
        FROM evidence e
        JOIN items s ON s.tenant_id = %(tenant_id)s AND s.item_id = e.source_item_id
        WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id AND s.trust IN ('user', 'agent')) >= %(sources)s
RETURNING i.item_id

-- name: mark_consolidated
-- The session is consolidated.
UPDATE sessions SET consolidated_at = %(now)s WHERE tenant_id = %(tenant_id)s AND session_ref = %(session_ref)s

-- name: find_mark
-- The last item that a review compared with the others.
SELECT examined_to FROM reviews WHERE tenant_id = %(tenant_id)s

-- name: save_mark
-- Record the last item that a review compared with the others.
INSERT INTO reviews (tenant_id, examined_to, reviewed_at) VALUES (%(tenant_id)s, %(examined_to)s, %(now)s)
ON CONFLICT (tenant_id) DO UPDATE SET
    examined_to = GREATEST(reviews.examined_to, excluded.examined_to), reviewed_at = excluded.reviewed_at

-- name: list_lasting
-- Live facts and procedures of the tenant's own, by id, a page at a time.
SELECT item_id FROM items
WHERE tenant_id = %(tenant_id)s AND item_id > %(after)s AND kind IN ('fact', 'procedure') AND live AND shared_from IS NULL
ORDER BY item_id LIMIT %(limit)s

-- name: list_reviewed
-- Items with their evidence, feedback, accesses and holds.
SELECT i.item_id, i.kind, i.content, i.trust, i.valid_at, i.created_at, i.confidence, i.pinned_at IS NOT NULL AS is_pinned,
    i.speaker, i.subject, i.predicate, i.object, COALESCE(a.times, 0) AS accesses, a.last_at,
    (SELECT count(*) FROM evidence e WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id) AS sources,
    (SELECT count(*) FROM feedback f WHERE f.tenant_id = %(tenant_id)s AND f.item_id = i.item_id AND f.opinion = 'useful') AS useful,
    (SELECT count(*) FROM feedback f WHERE f.tenant_id = %(tenant_id)s AND f.item_id = i.item_id AND f.opinion = 'wrong') AS wrong,
    EXISTS (SELECT 1 FROM holds h WHERE h.tenant_id = %(tenant_id)s AND h.item_id = i.item_id) AS is_held
FROM items i LEFT JOIN access a ON a.tenant_id = %(tenant_id)s AND a.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s) AND i.live AND i.shared_from IS NULL

-- name: insert_proposal
-- A proposal with the present state of its inputs; nothing when the same one is open or was rejected, or an input is gone.
WITH given AS (
    SELECT i.item_id, i.tier, i.confidence, (
        SELECT count(*) FROM evidence e WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id) AS sources
    FROM items i
    WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(inputs)s) AND i.live AND i.shared_from IS NULL
), added AS (
    INSERT INTO proposals (tenant_id, proposal_id, kind, rule, key, successor_id, inputs, proposed_at)
    SELECT %(tenant_id)s, %(proposal_id)s, %(kind)s, %(rule)s, %(key)s, %(successor_id)s, count(*), %(now)s FROM given
    HAVING count(*) = cardinality(%(inputs)s::uuid[])
    ON CONFLICT (tenant_id, key) WHERE status IN ('open', 'rejected', 'undone') DO NOTHING
    RETURNING proposal_id
)
INSERT INTO proposal_inputs (tenant_id, proposal_id, item_id, tier, sources, confidence)
SELECT %(tenant_id)s, m.proposal_id, g.item_id, g.tier, g.sources, g.confidence FROM added m CROSS JOIN given g
RETURNING 1

-- name: find_proposal
-- One proposal with its inputs.
SELECT p.proposal_id, p.kind, p.status, p.rule, p.successor_id, p.proposed_at, p.decided_at, p.decided_by, p.reason, ARRAY(
    SELECT n.item_id FROM proposal_inputs n WHERE n.tenant_id = %(tenant_id)s AND n.proposal_id = p.proposal_id
        AND n.item_id IS DISTINCT FROM p.successor_id ORDER BY n.item_id) AS item_ids
FROM proposals p WHERE p.tenant_id = %(tenant_id)s AND p.proposal_id = %(proposal_id)s

-- name: lock_proposal
-- Lock a proposal: its number of inputs, and the evidence that accepting it made.
SELECT inputs, links_made FROM proposals
WHERE tenant_id = %(tenant_id)s AND proposal_id = %(proposal_id)s FOR UPDATE

-- name: list_proposals
-- Proposals, newest first, a page at a time.
SELECT p.proposal_id, p.kind, p.status, p.rule, p.successor_id, p.proposed_at, p.decided_at, p.decided_by, p.reason, ARRAY(
    SELECT n.item_id FROM proposal_inputs n WHERE n.tenant_id = %(tenant_id)s AND n.proposal_id = p.proposal_id
        AND n.item_id IS DISTINCT FROM p.successor_id ORDER BY n.item_id) AS item_ids
FROM proposals p
WHERE p.tenant_id = %(tenant_id)s AND p.proposal_id < %(before)s AND (%(status)s::text IS NULL OR p.status = %(status)s)
    AND (%(kind)s::text IS NULL OR p.kind = %(kind)s)
ORDER BY p.proposal_id DESC LIMIT %(limit)s

-- name: proposed_items
-- The texts of items, and the first of what each was taken from; no text after erasure.
SELECT i.item_id, CASE WHEN i.deleted_at IS NULL AND i.anonymized_at IS NULL THEN i.content END AS content,
    s.item_id AS source_id, s.content AS source_content, s.event_time, s.session_id
FROM items i LEFT JOIN LATERAL (
    SELECT o.item_id, CASE WHEN o.deleted_at IS NULL AND o.anonymized_at IS NULL THEN o.content END AS content,
        e.event_time, o.session_id
    FROM evidence e JOIN items o ON o.tenant_id = %(tenant_id)s AND o.item_id = e.source_item_id
    WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id ORDER BY e.event_time, o.item_id LIMIT %(sources)s
) s ON true
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s)
ORDER BY i.item_id, s.event_time, s.item_id

-- name: inputs_of
-- The inputs of a proposal, with their state when it was made.
SELECT item_id, tier, sources, confidence FROM proposal_inputs
WHERE tenant_id = %(tenant_id)s AND proposal_id = %(proposal_id)s ORDER BY item_id

-- name: inputs_now
-- The present state of items, which are locked before.
SELECT i.item_id, i.live, i.pinned_at IS NOT NULL AS is_pinned, i.tier, i.confidence, a.last_at,
    EXISTS (SELECT 1 FROM holds h WHERE h.tenant_id = %(tenant_id)s AND h.item_id = i.item_id) AS is_held,
    (SELECT count(*) FROM evidence e WHERE e.tenant_id = %(tenant_id)s AND e.item_id = i.item_id) AS sources
FROM items i LEFT JOIN access a ON a.tenant_id = %(tenant_id)s AND a.item_id = i.item_id
WHERE i.tenant_id = %(tenant_id)s AND i.item_id = ANY(%(item_ids)s)

-- name: decide
-- The decision on a proposal, and its author.
UPDATE proposals SET status = %(status)s, decided_at = %(now)s, decided_by = %(decided_by)s, reason = %(reason)s,
    links_made = %(links_made)s
WHERE tenant_id = %(tenant_id)s AND proposal_id = %(proposal_id)s

-- name: lend_links
-- Give the sources of some items to their successor; returns those that are new to it.
INSERT INTO evidence (tenant_id, item_id, source_item_id, event_time)
SELECT DISTINCT ON (source_item_id) tenant_id, %(successor_id)s::uuid, source_item_id, event_time FROM evidence
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND source_item_id <> %(successor_id)s
ORDER BY source_item_id, event_time
ON CONFLICT (tenant_id, item_id, source_item_id) DO NOTHING
RETURNING source_item_id

-- name: return_links
-- Remove the sources that an item was given.
DELETE FROM evidence
WHERE tenant_id = %(tenant_id)s AND item_id = %(successor_id)s AND source_item_id = ANY(%(source_ids)s)

-- name: set_tier
-- Move live items from one tier to another.
UPDATE items SET tier = %(tier)s
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND live AND tier = %(was)s
RETURNING item_id

-- name: lock_name
-- One writer at a time makes versions of a workflow, until its transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended(
    concat_ws(E'\x1f', 'recordari workflow', %(tenant_id)s::text, %(agent_type)s::text, %(task_type)s::text,
        %(name)s::text), 0))

-- name: find_current
-- The version of a workflow that is active now, with the hash of its spec.
SELECT workflow_id, version, spec_hash FROM workflows
WHERE tenant_id = %(tenant_id)s AND agent_type = %(agent_type)s AND task_type = %(task_type)s AND name = %(name)s
    AND invalid_at IS NULL

-- name: last_version
-- The highest version that a workflow ever had.
SELECT COALESCE(max(version), 0) FROM workflows
WHERE tenant_id = %(tenant_id)s AND agent_type = %(agent_type)s AND task_type = %(task_type)s AND name = %(name)s

-- name: insert_workflow
-- A new version.
INSERT INTO workflows (
    tenant_id, workflow_id, agent_type, task_type, name, version, spec, spec_hash, alpha, beta, valid_at)
VALUES (
    %(tenant_id)s, %(workflow_id)s, %(agent_type)s, %(task_type)s, %(name)s, %(version)s, %(spec)s::json,
    %(spec_hash)s, %(alpha)s::float8::numeric, %(beta)s::float8::numeric, %(now)s)
RETURNING workflow_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by

-- name: end_workflow
-- End an active version, with or without a successor.
UPDATE workflows SET invalid_at = %(now)s, superseded_by = %(superseded_by)s
WHERE tenant_id = %(tenant_id)s AND workflow_id = %(workflow_id)s AND invalid_at IS NULL

-- name: find_workflow
-- One version.
SELECT workflow_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by
FROM workflows WHERE tenant_id = %(tenant_id)s AND workflow_id = %(workflow_id)s

-- name: list_active
-- The versions that can be chosen for a task, always in the same order.
SELECT workflow_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by
FROM workflows
WHERE tenant_id = %(tenant_id)s AND agent_type = %(agent_type)s AND task_type = %(task_type)s AND invalid_at IS NULL
ORDER BY name

-- name: list_history
-- Every version of one workflow, newest first.
SELECT workflow_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by
FROM workflows
WHERE tenant_id = %(tenant_id)s AND agent_type = %(agent_type)s AND task_type = %(task_type)s AND name = %(name)s
ORDER BY version DESC

-- name: list_workflows
-- Versions of all tasks, oldest first, a page at a time.
SELECT workflow_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by
FROM workflows
WHERE tenant_id = %(tenant_id)s AND workflow_id > %(after)s AND (%(also_ended)s OR invalid_at IS NULL)
ORDER BY workflow_id LIMIT %(limit)s

-- name: insert_choice
-- The workflow that was drawn, and the caller.
INSERT INTO choices (
    tenant_id, choice_id, workflow_id, owned_by, agent_id, session_id, run_id, sample, candidates, chosen_at)
VALUES (
    %(tenant_id)s, %(choice_id)s, %(workflow_id)s, %(owned_by)s, %(agent_id)s, %(session_id)s, %(run_id)s, %(sample)s,
    %(candidates)s, %(chosen_at)s)

-- name: find_choice
-- One choice.
SELECT choice_id, workflow_id, owned_by, agent_id, session_id, run_id, sample, candidates, chosen_at FROM choices
WHERE tenant_id = %(tenant_id)s AND choice_id = %(choice_id)s

-- name: reward
-- Record a new outcome and update the posterior, in one step; nothing when the outcome exists.
WITH added AS (
    INSERT INTO outcomes (tenant_id, outcome_id, owned_by, workflow_id, choice_id, score, rewarded_at)
    VALUES (
        %(tenant_id)s, %(outcome_id)s, %(owned_by)s, %(workflow_id)s, %(choice_id)s, %(score)s::float8::numeric,
        %(rewarded_at)s)
    ON CONFLICT (tenant_id, outcome_id, owned_by) DO NOTHING
    RETURNING workflow_id, score
)
UPDATE workflows w SET alpha = w.alpha + added.score, beta = w.beta + 1 - added.score, rewards = w.rewards + 1
FROM added WHERE w.tenant_id = %(tenant_id)s AND w.workflow_id = added.workflow_id

-- name: find_outcome
-- One outcome of an owner, or of any.
SELECT outcome_id, workflow_id, choice_id, score::float8 AS score, rewarded_at FROM outcomes
WHERE tenant_id = %(tenant_id)s AND outcome_id = %(outcome_id)s
    AND (%(owned_by)s::text IS NULL OR owned_by = %(owned_by)s)
ORDER BY rewarded_at LIMIT 1

-- name: list_outcomes
-- Outcomes of a workflow, of an owner or of all, newest first, before a position.
SELECT outcome_id, workflow_id, choice_id, score::float8 AS score, rewarded_at FROM outcomes
WHERE tenant_id = %(tenant_id)s AND workflow_id = %(workflow_id)s
    AND (%(owned_by)s::text IS NULL OR owned_by = %(owned_by)s)
    AND (rewarded_at, outcome_id) < (%(before_at)s, %(before_id)s)
ORDER BY rewarded_at DESC, outcome_id DESC LIMIT %(limit)s

-- name: list_choices
-- Choices of a workflow, of an owner or of all, newest first, before an id, each with the mean of its scores.
SELECT c.choice_id, c.workflow_id, c.owned_by, c.agent_id, c.session_id, c.run_id, c.sample, c.candidates, c.chosen_at, (
    SELECT avg(o.score)::float8 FROM outcomes o
    WHERE o.tenant_id = %(tenant_id)s AND o.workflow_id = c.workflow_id AND o.choice_id = c.choice_id) AS score
FROM choices c
WHERE c.tenant_id = %(tenant_id)s AND c.workflow_id = %(workflow_id)s
    AND (%(owned_by)s::text IS NULL OR c.owned_by = %(owned_by)s) AND c.choice_id < %(before)s
ORDER BY c.choice_id DESC LIMIT %(limit)s

-- name: delete_choices
-- Forget choices made long ago, some at a time; outcomes stay.
DELETE FROM choices WHERE tenant_id = %(tenant_id)s AND choice_id IN (
    SELECT choice_id FROM choices WHERE tenant_id = %(tenant_id)s AND chosen_at < %(before)s
    ORDER BY chosen_at LIMIT %(limit)s)
