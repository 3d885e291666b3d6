-- name: lock_open
-- The open session of the owner's line that the id belongs to, locked; with the size of its agent's model.
SELECT s.session_id, s.session_ref, s.root_id, s.continues, s.user_id, s.agent_id, s.status, s.close_reason,
    s.idle_seconds, s.notes_seconds, s.window_share, s.metadata, s.opened_at, s.active_at, s.closed_at, s.messages, s.window_from,
    s.window_tokens, s.epoch, s.epoch_from, s.epoch_to, s.tail_before, s.tail_moves, s.prompt_tokens, s.summary, s.summary_id, s.summarised_to,
    s.summary_trust, s.folded_to, s.folds, (
    SELECT window_tokens FROM agents a WHERE a.tenant_id = %(tenant_id)s AND a.agent_id = s.agent_id) AS model_tokens
FROM sessions s
WHERE s.tenant_id = %(tenant_id)s AND s.owned_by = %(owned_by)s AND s.status = 'open' AND s.root_id = COALESCE(
    (SELECT root_id FROM sessions
     WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s), %(session_id)s)
FOR UPDATE OF s

-- name: enter_open
-- Locks a session that is as expected (open, not idle, with room in its window), then its thread: every writer takes the locks in
-- this order. Nothing of the transaction is done if the session is not as expected.
WITH entered AS MATERIALIZED (
    SELECT 1 FROM sessions s
    WHERE s.tenant_id = %(tenant_id)s AND s.session_id = %(session_id)s AND s.owned_by = %(owned_by)s
        AND s.root_id = %(root_id)s AND s.status = 'open' AND s.active_at + s.idle_seconds * interval '1 second' >= %(now)s
        AND s.window_tokens + %(tokens)s <= %(limit)s
    FOR UPDATE
)
SELECT CASE WHEN EXISTS (SELECT 1 FROM entered)
    THEN pg_advisory_xact_lock(thread_lock(%(tenant_id)s::uuid, %(thread)s::text)) IS NOT NULL
    ELSE refuse('the session is not as expected') END

-- name: add_messages
-- New messages with the window of their session, and an outbox entry when its summary is due. A statement after the lock: it sees
-- what was written before. Nothing is done if one of the messages is known, also as one of another kind, or was forgotten.
{new_items}, saved AS (
    UPDATE sessions SET active_at = GREATEST(active_at, %(now)s), messages = messages + %(many)s,
        window_tokens = window_tokens + %(tokens_added)s
    WHERE tenant_id = %(tenant_id)s AND session_id = %(of_session)s AND owned_by = %(of_owner)s
    RETURNING session_ref, messages, window_from, window_tokens, epoch, folds
), due AS (
    INSERT INTO outbox (topic, tenant_id, ref)
    SELECT %(summary_topic)s::text, %(tenant_id)s::uuid, session_ref FROM saved
    WHERE messages / %(every)s <> (messages - %(many)s) / %(every)s
    RETURNING 1
)
SELECT CASE WHEN (SELECT count(*) FROM made) <> %(many)s OR EXISTS (
        SELECT 1 FROM given g CROSS JOIN LATERAL (
            SELECT 1 FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.owned_by = g.owned_by
                AND i.kind = CASE g.kind WHEN 'chat_message' THEN 'tool_output' ELSE 'chat_message' END
                AND i.source_ref = g.source_ref OFFSET 0) known)
    THEN refuse('a message is known') ELSE true END,
    meant.next_topic, saved.messages, saved.window_from, saved.window_tokens, saved.epoch, saved.folds
FROM saved LEFT JOIN meant ON true ORDER BY meant.ordinal

-- name: find_newest
-- The newest session of the owner's line that the id belongs to; with the size of its agent's model.
SELECT s.session_id, s.session_ref, s.root_id, s.continues, s.user_id, s.agent_id, s.status, s.close_reason,
    s.idle_seconds, s.notes_seconds, s.window_share, s.metadata, s.opened_at, s.active_at, s.closed_at, s.messages, s.window_from,
    s.window_tokens, s.epoch, s.epoch_from, s.epoch_to, s.tail_before, s.tail_moves, s.prompt_tokens, s.summary, s.summary_id, s.summarised_to,
    s.summary_trust, s.folded_to, s.folds, (
    SELECT window_tokens FROM agents a WHERE a.tenant_id = %(tenant_id)s AND a.agent_id = s.agent_id) AS model_tokens
FROM sessions s
WHERE s.tenant_id = %(tenant_id)s AND s.owned_by = %(owned_by)s AND s.root_id = (
    SELECT root_id FROM sessions
    WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s)
ORDER BY s.session_ref DESC LIMIT 1

-- name: find_session
-- One session by its own id.
SELECT s.session_id, s.session_ref, s.root_id, s.continues, s.user_id, s.agent_id, s.status, s.close_reason,
    s.idle_seconds, s.notes_seconds, s.window_share, s.metadata, s.opened_at, s.active_at, s.closed_at, s.messages, s.window_from,
    s.window_tokens, s.epoch, s.epoch_from, s.epoch_to, s.tail_before, s.tail_moves, s.prompt_tokens, s.summary, s.summary_id, s.summarised_to,
    s.summary_trust, s.folded_to, s.folds
FROM sessions s
WHERE s.tenant_id = %(tenant_id)s AND s.session_id = %(session_id)s AND s.owned_by = %(owned_by)s

-- name: list_session_owners
-- The owners who have a session with this id: the caller first, and at most two.
SELECT owned_by FROM sessions WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s
ORDER BY owned_by <> %(own)s, owned_by LIMIT 2

-- name: find_by_refs
-- Sessions by their references, as the outbox has them.
SELECT s.session_id, s.session_ref, s.root_id, s.continues, s.user_id, s.agent_id, s.status, s.close_reason,
    s.idle_seconds, s.notes_seconds, s.window_share, s.metadata, s.opened_at, s.active_at, s.closed_at, s.messages, s.window_from,
    s.window_tokens, s.epoch, s.epoch_from, s.epoch_to, s.tail_before, s.tail_moves, s.prompt_tokens, s.summary, s.summary_id, s.summarised_to,
    s.summary_trust, s.folded_to, s.folds
FROM sessions s WHERE s.tenant_id = %(tenant_id)s AND s.session_ref = ANY(%(session_refs)s)

-- name: insert_session
-- A new open session; nothing when its id is taken or its line has an open one.
WITH new_user AS (
    INSERT INTO users (tenant_id, user_id)
    SELECT %(tenant_id)s::uuid, %(user_id)s::text WHERE %(user_id)s::text IS NOT NULL
    ON CONFLICT (tenant_id, user_id) DO NOTHING
    RETURNING 1
)
INSERT INTO sessions (
    tenant_id, session_id, owned_by, session_ref, root_id, continues, user_id, agent_id, idle_seconds, notes_seconds,
    window_share, metadata, opened_at, active_at)
VALUES (
    %(tenant_id)s, %(session_id)s, %(owned_by)s, %(session_ref)s, %(root_id)s, %(continues)s, %(user_id)s, %(agent_id)s,
    %(idle_seconds)s, %(notes_seconds)s, %(window_share)s, %(metadata)s, %(now)s, %(now)s)
ON CONFLICT DO NOTHING

-- name: list_sessions
-- Sessions, newest first, by owner, status and the time they were opened.
SELECT s.session_id, s.session_ref, s.root_id, s.continues, s.user_id, s.agent_id, s.status, s.close_reason,
    s.idle_seconds, s.notes_seconds, s.window_share, s.metadata, s.opened_at, s.active_at, s.closed_at, s.messages, s.window_from,
    s.window_tokens, s.epoch, s.epoch_from, s.epoch_to, s.tail_before, s.tail_moves, s.prompt_tokens, s.summary, s.summary_id, s.summarised_to,
    s.summary_trust, s.folded_to, s.folds
FROM sessions s
WHERE s.tenant_id = %(tenant_id)s AND s.session_ref < %(before)s AND s.opened_at >= %(since)s AND s.opened_at < %(until)s
    AND (%(agent_id)s::text IS NULL OR s.agent_id = %(agent_id)s)
    AND (%(user_id)s::text IS NULL OR s.user_id = %(user_id)s)
    AND (%(owned_by)s::text IS NULL OR s.owned_by = %(owned_by)s)
    AND (%(status)s::text IS NULL OR s.status = %(status)s)
ORDER BY s.session_ref DESC LIMIT %(limit)s

-- name: touch
-- Note that there was activity in a session.
UPDATE sessions SET active_at = GREATEST(active_at, %(now)s)
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s

-- name: save_window
-- The window of a session after new messages or reported usage.
UPDATE sessions SET
    active_at = GREATEST(active_at, %(now)s), messages = %(messages)s, window_from = %(window_from)s,
    window_tokens = %(window_tokens)s, epoch = %(epoch)s, epoch_from = %(epoch_from)s, epoch_to = %(epoch_to)s,
    tail_before = %(tail_before)s, tail_moves = %(tail_moves)s, prompt_tokens = %(prompt_tokens)s
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s

-- name: save_summary
-- The renewed summary of a session, unless another worker has covered more messages.
UPDATE sessions SET summary = %(summary)s, summary_id = %(summary_id)s, summary_trust = %(summary_trust)s,
    summarised_to = %(summarised_to)s
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s AND summarised_to = %(was)s

-- name: list_resting_summaries
-- The rolling summaries of open sessions without activity since then that the tenant's model has not embedded.
SELECT s.summary_id FROM sessions s
JOIN tenants t ON t.tenant_id = %(tenant_id)s
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.item_id = s.summary_id AND i.anonymized_at IS NULL AND i.deleted_at IS NULL
WHERE s.tenant_id = %(tenant_id)s AND s.status = 'open' AND s.active_at < %(before)s AND t.embedding_model IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM vectors v
        WHERE v.tenant_id = %(tenant_id)s AND v.model_id = t.embedding_model AND v.item_id = s.summary_id)
ORDER BY s.session_ref

-- name: save_fold
-- One more lasting summary of messages that left the window, unless another worker made it.
UPDATE sessions SET folds = folds || %(fold)s::jsonb, folded_to = %(folded_to)s
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s AND folded_to = %(was)s

-- name: close_session
-- Close a session and abandon its running runs; the answer has a row with those runs if the session was open.
WITH closed AS (
    UPDATE sessions SET status = 'closed', close_reason = %(reason)s, closed_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s AND status = 'open'
    RETURNING session_id
), failed AS (
    UPDATE runs SET status = 'failed', error = %(error)s, ended_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND status = 'running'
        AND session_id IN (SELECT session_id FROM closed)
    RETURNING run_id
), ended AS (
    UPDATE turns SET status = 'failed', error = %(error)s, ended_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND status = 'running'
        AND run_id IN (SELECT run_id FROM failed)
), turn_state AS (
    UPDATE turn_states SET status = 'failed', updated_at = %(now)s
    WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND status = 'running'
        AND run_id IN (SELECT run_id FROM failed)
)
SELECT ARRAY(SELECT run_id FROM failed) AS abandoned FROM closed

-- name: list_idle
-- Open sessions whose idle limit has passed.
SELECT session_id, owned_by FROM sessions
WHERE tenant_id = %(tenant_id)s AND status = 'open' AND active_at + idle_seconds * interval '1 second' < %(now)s
ORDER BY session_ref LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: last_position
-- The last position in a thread.
SELECT COALESCE(max(position), 0) FROM items WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s

-- name: list_tokens
-- The positions of messages with their tokens, oldest first, faded ones too; a message not added by add_messages has its text instead.
SELECT position, (metadata->>'tokens')::integer AS tokens, CASE WHEN metadata->>'tokens' IS NULL THEN content END AS content
FROM items
WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s AND position >= %(first)s
    AND invalid_at IS NULL AND superseded_by IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
    AND (archived_at IS NULL OR tier NOT IN ('run', 'session'))
    AND (kind = 'chat_message' OR (kind = 'tool_output' AND metadata ? 'role'))
ORDER BY position, item_id

-- name: list_messages
-- Messages of a thread between two positions, oldest first, faded ones too; the output of a tool is one if it was added with a role.
SELECT item_id, kind, position, scope, trust, speaker, content, event_time, payload_key, metadata FROM items
WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s AND position >= %(first)s AND position <= %(last)s
    AND invalid_at IS NULL AND superseded_by IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
    AND (archived_at IS NULL OR tier NOT IN ('run', 'session'))
    AND (kind = 'chat_message' OR (kind = 'tool_output' AND metadata ? 'role'))
ORDER BY position, item_id LIMIT %(limit)s

-- name: list_spans
-- The same for several threads at once, each with its positions and with a limit of its own.
SELECT g.span::integer AS span, m.* FROM unnest(%(threads)s::text[], %(firsts)s::integer[], %(lasts)s::integer[])
    WITH ORDINALITY AS g (thread, first, last, span)
CROSS JOIN LATERAL (
    SELECT item_id, kind, position, scope, trust, speaker, content, event_time, payload_key, metadata FROM items
    WHERE tenant_id = %(tenant_id)s AND thread = g.thread AND position >= g.first AND position <= g.last
        AND invalid_at IS NULL AND superseded_by IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
        AND (archived_at IS NULL OR tier NOT IN ('run', 'session'))
        AND (kind = 'chat_message' OR (kind = 'tool_output' AND metadata ? 'role'))
    ORDER BY position, item_id LIMIT %(limit)s) m
ORDER BY g.span, m.position, m.item_id

-- name: list_newest_messages
-- The newest messages of a thread from a position on, newest first, faded ones too.
SELECT item_id, kind, position, scope, trust, speaker, content, event_time, payload_key, metadata FROM items
WHERE tenant_id = %(tenant_id)s AND thread = %(thread)s AND position >= %(first)s
    AND invalid_at IS NULL AND superseded_by IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
    AND (archived_at IS NULL OR tier NOT IN ('run', 'session'))
    AND (kind = 'chat_message' OR (kind = 'tool_output' AND metadata ? 'role'))
ORDER BY position DESC, item_id DESC LIMIT %(limit)s

-- name: list_tail
-- The newest messages in the window of the newest session of a line, or of its present epoch, newest first, faded ones too.
SELECT m.* FROM (
    SELECT session_thread(s.owned_by, s.session_id) AS thread,
        CASE WHEN %(of_epoch)s THEN COALESCE(s.epoch_from, 1) ELSE s.window_from END AS first
    FROM sessions s
    WHERE s.tenant_id = %(tenant_id)s AND s.owned_by = %(owned_by)s AND s.root_id = (
        SELECT root_id FROM sessions
        WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s)
    ORDER BY s.session_ref DESC LIMIT 1) newest
CROSS JOIN LATERAL (
    SELECT item_id, kind, position, scope, trust, speaker, content, event_time, payload_key, metadata FROM items
    WHERE tenant_id = %(tenant_id)s AND thread = newest.thread AND position >= newest.first
        AND invalid_at IS NULL AND superseded_by IS NULL AND deleted_at IS NULL AND anonymized_at IS NULL
        AND (archived_at IS NULL OR tier NOT IN ('run', 'session'))
        AND (kind = 'chat_message' OR (kind = 'tool_output' AND metadata ? 'role'))
    ORDER BY position DESC, item_id DESC LIMIT %(limit)s) m

-- name: list_unsummarised
-- The newest messages before a position that the summary of their session does not cover, newest first.
SELECT i.item_id, i.kind, i.position, i.scope, i.trust, i.speaker, i.content, i.event_time, i.payload_key, i.metadata
FROM sessions s
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.thread = %(thread)s AND i.position > s.summarised_to
WHERE s.tenant_id = %(tenant_id)s AND s.session_id = %(session_id)s AND s.owned_by = %(owned_by)s
    AND i.position < %(before)s
    AND i.invalid_at IS NULL AND i.superseded_by IS NULL AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
    AND (i.archived_at IS NULL OR i.tier NOT IN ('run', 'session'))
    AND (i.kind = 'chat_message' OR (i.kind = 'tool_output' AND i.metadata ? 'role'))
ORDER BY i.position DESC, i.item_id DESC LIMIT %(limit)s

-- name: insert_notes
-- New notes of a session; the answer has the surplus: the least important, then the oldest.
WITH before AS MATERIALIZED (
    SELECT note_id, importance FROM notes
    WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s
), inserted AS (
    INSERT INTO notes (tenant_id, session_id, owned_by, note_id, kind, content, importance, item_id, created_at)
    SELECT %(tenant_id)s, %(session_id)s, %(owned_by)s, note_id, kind, content, importance, item_id, %(now)s
    FROM unnest(%(note_id)s::uuid[], %(kind)s::text[], %(content)s::text[], %(importance)s::real[], %(item_id)s::uuid[])
        AS n (note_id, kind, content, importance, item_id)
    RETURNING note_id, importance
), all_notes AS (
    SELECT note_id, importance FROM inserted
    UNION ALL
    SELECT note_id, importance FROM before
)
SELECT note_id FROM all_notes ORDER BY importance DESC, note_id DESC OFFSET %(most)s

-- name: delete_notes
-- Remove notes of a session.
DELETE FROM notes
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s AND note_id = ANY(%(note_ids)s)

-- name: empty_answer_of_note
-- The answer kept by idempotency key when a note was made: the key stays used, but what was answered is gone.
UPDATE answers SET sealed = NULL, shows = '{}'
WHERE tenant_id = %(tenant_id)s AND sealed IS NOT NULL AND shows && ARRAY[%(note_id)s::uuid::text]

-- name: list_notes
-- The notes of a session in the order they were made.
SELECT note_id, kind, content, importance, item_id, created_at FROM notes
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s ORDER BY note_id

-- name: list_newest_notes
-- The notes of the newest session of a line in the order they were made.
SELECT note_id, kind, content, importance, item_id, created_at FROM notes
WHERE tenant_id = %(tenant_id)s AND owned_by = %(owned_by)s AND session_id = (
    SELECT s.session_id FROM sessions s
    WHERE s.tenant_id = %(tenant_id)s AND s.owned_by = %(owned_by)s AND s.root_id = (
        SELECT root_id FROM sessions
        WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND owned_by = %(owned_by)s)
    ORDER BY s.session_ref DESC LIMIT 1)
ORDER BY note_id

-- name: delete_expired
-- Remove the notes of sessions without activity for the notes' lifetime.
DELETE FROM notes n USING sessions s
WHERE n.tenant_id = %(tenant_id)s AND s.tenant_id = %(tenant_id)s AND s.session_id = n.session_id
    AND s.owned_by = n.owned_by AND EXTRACT(epoch FROM %(now)s::timestamptz - s.active_at) > s.notes_seconds
