-- name: insert_entry
-- One entry of the audit, in the transaction of the change.
INSERT INTO audit (tenant_id, audit_id, actor, action, subject_kind, subject_id, reason, details)
VALUES (%(tenant_id)s, %(audit_id)s, %(actor)s, %(action)s, %(subject_kind)s, %(subject_id)s, %(reason)s, %(details)s)

-- name: list_entries
-- The audit, newest first, before an id; only the entries of an actor, of an action or its group, and of a time, where named.
SELECT audit_id, at, actor, action, subject_kind, subject_id, reason, details FROM audit
WHERE tenant_id = %(tenant_id)s AND audit_id < %(before)s
    AND (%(actor)s::text IS NULL OR actor = %(actor)s)
    AND (%(action)s::text IS NULL OR action = %(action)s OR starts_with(action, %(action)s || '.'))
    AND at >= %(since)s AND at < %(until)s
ORDER BY audit_id DESC LIMIT %(limit)s

-- name: list_entries_of
-- The audit of one subject, newest first.
SELECT audit_id, at, actor, action, subject_kind, subject_id, reason, details FROM audit
WHERE tenant_id = %(tenant_id)s AND subject_kind = %(subject_kind)s AND subject_id = %(subject_id)s
    AND audit_id < %(before)s
ORDER BY audit_id DESC LIMIT %(limit)s
