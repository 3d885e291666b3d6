-- name: save_question
-- Ask a question under a name, or change it.
INSERT INTO questions AS q (tenant_id, question_id, name, agent_id, question, changed_at)
VALUES (%(tenant_id)s, %(question_id)s, %(name)s, %(agent_id)s, %(question)s, %(changed_at)s)
ON CONFLICT (tenant_id, name, agent_id) DO UPDATE SET question = excluded.question,
    changed_at = CASE WHEN q.question = excluded.question THEN q.changed_at ELSE excluded.changed_at END
RETURNING q.question_id, q.name, q.agent_id, q.question, q.changed_at

-- name: count_questions
-- How many questions a tenant has.
SELECT count(*) FROM questions WHERE tenant_id = %(tenant_id)s

-- name: list_questions
-- The questions of a tenant, by name.
SELECT q.question_id, q.name, q.agent_id, q.question, q.changed_at FROM questions q WHERE q.tenant_id = %(tenant_id)s ORDER BY q.name, q.agent_id NULLS FIRST

-- name: find_question
-- The question of that name: an agent's own before the one of all agents.
SELECT q.question_id, q.name, q.agent_id, q.question, q.changed_at FROM questions q
WHERE q.tenant_id = %(tenant_id)s AND q.name = %(name)s AND (q.agent_id IS NULL OR q.agent_id = %(agent_id)s)
ORDER BY q.agent_id NULLS LAST LIMIT 1

-- name: delete_question
-- Remove a question with its answers.
DELETE FROM questions
WHERE tenant_id = %(tenant_id)s AND name = %(name)s AND agent_id IS NOT DISTINCT FROM %(agent_id)s::text
RETURNING question_id

-- name: find_answer
-- The answer that is kept for a user.
SELECT answer_id, question_id, user_id, content, sources, writer, made_at, version FROM question_answers
WHERE tenant_id = %(tenant_id)s AND question_id = %(question_id)s AND user_id = %(user_id)s

-- name: find_answers
-- Kept answers by id, each with its question.
SELECT a.answer_id, a.user_id, q.question_id, q.name, q.agent_id, q.question, q.changed_at FROM question_answers a
JOIN questions q ON q.tenant_id = %(tenant_id)s AND q.question_id = a.question_id
WHERE a.tenant_id = %(tenant_id)s AND a.answer_id = ANY(%(answer_ids)s)

-- name: lock_sources
-- The items that an answer may rest on: they cannot be forgotten before the transaction ends.
SELECT item_id FROM items WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND deleted_at IS NULL
    AND anonymized_at IS NULL
ORDER BY item_id FOR SHARE

-- name: save_answer
-- Keep the answer for a user.
INSERT INTO question_answers AS a (tenant_id, answer_id, question_id, user_id, content, sources, writer, made_at, version)
VALUES (%(tenant_id)s, %(answer_id)s, %(question_id)s, %(user_id)s, %(content)s, %(sources)s, %(writer)s, %(made_at)s, %(version)s)
ON CONFLICT (tenant_id, question_id, user_id) DO UPDATE SET content = excluded.content, sources = excluded.sources,
    writer = excluded.writer, made_at = excluded.made_at, version = excluded.version
RETURNING a.answer_id

-- name: answers_for_context
-- The questions that an agent asks, each with the answer that is kept for a user, and whether all that it rests on still holds.
SELECT DISTINCT ON (q.name) q.question_id, q.name, q.agent_id, q.question, q.changed_at, a.answer_id, coalesce(a.content, '') AS content, a.made_at,
    a.answer_id IS NOT NULL AND a.version >= 0 AND a.made_at >= q.changed_at AND NOT EXISTS (
        SELECT 1 FROM unnest(a.sources) AS s (item_id)
        LEFT JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = s.item_id AND i.deleted_at IS NULL AND i.invalid_at IS NULL
        WHERE i.item_id IS NULL) AS holds
FROM questions q
LEFT JOIN question_answers a ON a.tenant_id = %(tenant_id)s AND a.question_id = q.question_id AND a.user_id = %(user_id)s
WHERE q.tenant_id = %(tenant_id)s AND (q.agent_id IS NULL OR q.agent_id = %(agent_id)s)
ORDER BY q.name, q.agent_id NULLS LAST
