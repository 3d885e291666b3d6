-- name: insert_notes
-- New notes of a session; past the most it may have, the least important and then the oldest go.
WITH inserted AS (
    INSERT INTO notes (tenant_id, session_id, note_id, kind, content, importance, item_id, created_at)
    SELECT %(tenant_id)s, %(session_id)s, note_id, kind, content, importance, item_id, %(now)s
    FROM unnest(%(note_ids)s::uuid[], %(kinds)s::text[], %(contents)s::text[], %(importances)s::real[], %(item_ids)s::uuid[])
        AS n (note_id, kind, content, importance, item_id)
    RETURNING note_id, importance
), together AS (
    SELECT note_id, importance FROM inserted
    UNION ALL
    SELECT note_id, importance FROM notes WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s
)
SELECT note_id FROM together ORDER BY importance DESC, note_id DESC OFFSET %(most)s

-- name: delete_notes
-- Remove notes of a session.
DELETE FROM notes WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s AND note_id = ANY(%(note_ids)s)

-- name: list_notes
-- The notes of a session in the order they were made.
SELECT note_id, kind, content, importance, item_id, created_at FROM notes
WHERE tenant_id = %(tenant_id)s AND session_id = %(session_id)s ORDER BY note_id

-- name: delete_expired
-- Remove the notes of sessions in which nothing has happened for their notes' lifetime.
DELETE FROM notes n USING sessions s
WHERE n.tenant_id = %(tenant_id)s AND s.tenant_id = %(tenant_id)s AND s.session_id = n.session_id
    AND s.active_at + s.notes_seconds * interval '1 second' < %(now)s
