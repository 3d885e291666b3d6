-- name: claim_answer
-- Take the right to answer under a key: when nobody has it, its time is over, or whoever had it fell silent.
INSERT INTO answers AS a (tenant_id, key_hash, request_hash, claim, claimed_at, expires_at)
VALUES (%(tenant_id)s, %(key_hash)s, %(request_hash)s, %(claim)s, %(now)s, %(expires_at)s)
ON CONFLICT (tenant_id, key_hash) DO UPDATE SET request_hash = excluded.request_hash, claim = excluded.claim,
    claimed_at = excluded.claimed_at, sealed = NULL, expires_at = excluded.expires_at
WHERE a.expires_at <= %(now)s
    OR (a.sealed IS NULL AND a.claimed_at <= %(silent_since)s AND a.request_hash = excluded.request_hash)
RETURNING claim

-- name: find_answer
-- What stands under a key.
SELECT request_hash, sealed FROM answers WHERE tenant_id = %(tenant_id)s AND key_hash = %(key_hash)s

-- name: save_answer
-- Keep the answer of whoever still has the right to it.
UPDATE answers SET sealed = %(sealed)s WHERE tenant_id = %(tenant_id)s AND key_hash = %(key_hash)s AND claim = %(claim)s

-- name: drop_claim
-- Let the next request under the key try again.
DELETE FROM answers WHERE tenant_id = %(tenant_id)s AND key_hash = %(key_hash)s AND claim = %(claim)s AND sealed IS NULL

-- name: delete_expired
-- Answers whose time is over.
DELETE FROM answers WHERE tenant_id = %(tenant_id)s AND expires_at <= %(now)s
