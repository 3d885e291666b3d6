-- name: server_process
-- The server process that answers this transaction.
SELECT pg_backend_pid()
