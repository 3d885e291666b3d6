-- name: lock_name
-- Let one writer at a time make versions of a procedure, until the end of its transaction.
SELECT pg_advisory_xact_lock(hashtextextended(
    concat_ws(E'\x1f', 'recordari procedure', %(tenant_id)s::text, %(agent_type)s::text, %(task_type)s::text,
        %(name)s::text), 0))

-- name: find_current
-- The version of a procedure that is active now, with the hash of its spec.
SELECT procedure_id, version, spec_hash FROM procedures
WHERE tenant_id = %(tenant_id)s AND agent_type = %(agent_type)s AND task_type = %(task_type)s AND name = %(name)s
    AND invalid_at IS NULL

-- name: last_version
-- The highest version that a procedure ever had.
SELECT COALESCE(max(version), 0) FROM procedures
WHERE tenant_id = %(tenant_id)s AND agent_type = %(agent_type)s AND task_type = %(task_type)s AND name = %(name)s

-- name: insert_procedure
-- A new version.
INSERT INTO procedures (
    tenant_id, procedure_id, agent_type, task_type, name, version, spec, spec_hash, alpha, beta, valid_at)
VALUES (
    %(tenant_id)s, %(procedure_id)s, %(agent_type)s, %(task_type)s, %(name)s, %(version)s, %(spec)s::json,
    %(spec_hash)s, %(alpha)s::float8::numeric, %(beta)s::float8::numeric, %(now)s)
RETURNING procedure_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by

-- name: end_procedure
-- End a version that is active: another takes its place, or none.
UPDATE procedures SET invalid_at = %(now)s, superseded_by = %(superseded_by)s
WHERE tenant_id = %(tenant_id)s AND procedure_id = %(procedure_id)s AND invalid_at IS NULL

-- name: find_procedure
-- One version.
SELECT procedure_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by
FROM procedures WHERE tenant_id = %(tenant_id)s AND procedure_id = %(procedure_id)s

-- name: list_active
-- The versions that can be chosen for a task, always in the same order.
SELECT procedure_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by
FROM procedures
WHERE tenant_id = %(tenant_id)s AND agent_type = %(agent_type)s AND task_type = %(task_type)s AND invalid_at IS NULL
ORDER BY name

-- name: list_history
-- Every version of one procedure, newest first.
SELECT procedure_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by
FROM procedures
WHERE tenant_id = %(tenant_id)s AND agent_type = %(agent_type)s AND task_type = %(task_type)s AND name = %(name)s
ORDER BY version DESC

-- name: list_procedures
-- Versions of all tasks, oldest first, a page at a time.
SELECT procedure_id, agent_type, task_type, name, version, spec, alpha::float8 AS alpha, beta::float8 AS beta,
    rewards, valid_at, invalid_at, superseded_by
FROM procedures
WHERE tenant_id = %(tenant_id)s AND procedure_id > %(after)s AND (%(also_ended)s OR invalid_at IS NULL)
ORDER BY procedure_id LIMIT %(limit)s

-- name: insert_choice
-- Which procedure was drawn, for whom.
INSERT INTO choices (
    tenant_id, choice_id, procedure_id, agent_id, session_id, run_id, sample, candidates, chosen_at)
VALUES (
    %(tenant_id)s, %(choice_id)s, %(procedure_id)s, %(agent_id)s, %(session_id)s, %(run_id)s, %(sample)s,
    %(candidates)s, %(now)s)

-- name: find_choice
-- One choice.
SELECT choice_id, procedure_id, agent_id, session_id, run_id, sample, candidates, chosen_at FROM choices
WHERE tenant_id = %(tenant_id)s AND choice_id = %(choice_id)s

-- name: reward
-- Note an outcome that is new and move the posterior by it, in one step; nothing when the outcome is known.
WITH noted AS (
    INSERT INTO outcomes (tenant_id, outcome_id, procedure_id, choice_id, score, rewarded_at)
    VALUES (
        %(tenant_id)s, %(outcome_id)s, %(procedure_id)s, %(choice_id)s, %(score)s::float8::numeric, %(now)s)
    ON CONFLICT (tenant_id, outcome_id) DO NOTHING
    RETURNING procedure_id, score
)
UPDATE procedures p SET alpha = p.alpha + noted.score, beta = p.beta + 1 - noted.score, rewards = p.rewards + 1
FROM noted WHERE p.tenant_id = %(tenant_id)s AND p.procedure_id = noted.procedure_id

-- name: find_outcome
-- One outcome.
SELECT outcome_id, procedure_id, choice_id, score::float8 AS score, rewarded_at FROM outcomes
WHERE tenant_id = %(tenant_id)s AND outcome_id = %(outcome_id)s

-- name: list_outcomes
-- What came of a procedure, newest first, before the place given.
SELECT outcome_id, procedure_id, choice_id, score::float8 AS score, rewarded_at FROM outcomes
WHERE tenant_id = %(tenant_id)s AND procedure_id = %(procedure_id)s
    AND (rewarded_at, outcome_id) < (%(before_at)s, %(before_id)s)
ORDER BY rewarded_at DESC, outcome_id DESC LIMIT %(limit)s

-- name: delete_choices
-- Forget choices made long ago, some at a time; outcomes stay.
DELETE FROM choices WHERE tenant_id = %(tenant_id)s AND choice_id IN (
    SELECT choice_id FROM choices WHERE tenant_id = %(tenant_id)s AND chosen_at < %(before)s
    ORDER BY chosen_at LIMIT %(limit)s)
