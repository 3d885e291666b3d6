-- name: lock_name
-- Let one writer at a time make versions of a workflow, until the end of its transaction.
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
-- End a version that is active: another takes its place, or none.
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
-- Which workflow was drawn, for whom.
INSERT INTO choices (
    tenant_id, choice_id, workflow_id, agent_id, session_id, run_id, sample, candidates, chosen_at)
VALUES (
    %(tenant_id)s, %(choice_id)s, %(workflow_id)s, %(agent_id)s, %(session_id)s, %(run_id)s, %(sample)s,
    %(candidates)s, %(now)s)

-- name: find_choice
-- One choice.
SELECT choice_id, workflow_id, agent_id, session_id, run_id, sample, candidates, chosen_at FROM choices
WHERE tenant_id = %(tenant_id)s AND choice_id = %(choice_id)s

-- name: reward
-- Note an outcome that is new and move the posterior by it, in one step; nothing when the outcome is known.
WITH noted AS (
    INSERT INTO outcomes (tenant_id, outcome_id, workflow_id, choice_id, score, rewarded_at)
    VALUES (
        %(tenant_id)s, %(outcome_id)s, %(workflow_id)s, %(choice_id)s, %(score)s::float8::numeric, %(now)s)
    ON CONFLICT (tenant_id, outcome_id) DO NOTHING
    RETURNING workflow_id, score
)
UPDATE workflows w SET alpha = w.alpha + noted.score, beta = w.beta + 1 - noted.score, rewards = w.rewards + 1
FROM noted WHERE w.tenant_id = %(tenant_id)s AND w.workflow_id = noted.workflow_id

-- name: find_outcome
-- One outcome.
SELECT outcome_id, workflow_id, choice_id, score::float8 AS score, rewarded_at FROM outcomes
WHERE tenant_id = %(tenant_id)s AND outcome_id = %(outcome_id)s

-- name: list_outcomes
-- What came of a workflow, newest first, before the place given.
SELECT outcome_id, workflow_id, choice_id, score::float8 AS score, rewarded_at FROM outcomes
WHERE tenant_id = %(tenant_id)s AND workflow_id = %(workflow_id)s
    AND (rewarded_at, outcome_id) < (%(before_at)s, %(before_id)s)
ORDER BY rewarded_at DESC, outcome_id DESC LIMIT %(limit)s

-- name: delete_choices
-- Forget choices made long ago, some at a time; outcomes stay.
DELETE FROM choices WHERE tenant_id = %(tenant_id)s AND choice_id IN (
    SELECT choice_id FROM choices WHERE tenant_id = %(tenant_id)s AND chosen_at < %(before)s
    ORDER BY chosen_at LIMIT %(limit)s)
