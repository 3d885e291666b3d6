-- name: has_written
-- Whether the transaction has written or locked anything.
SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS has_written
