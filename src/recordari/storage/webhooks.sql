-- name: insert_webhook
-- A webhook that hears of what comes from now on.
INSERT INTO webhooks (tenant_id, webhook_id, url, types, secret, position)
VALUES (%(tenant_id)s, %(webhook_id)s, %(url)s, %(types)s, %(secret)s, %(position)s)
RETURNING webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at

-- name: list_webhooks
-- The tenant's webhooks in the order of their making.
SELECT webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at
FROM webhooks WHERE tenant_id = %(tenant_id)s ORDER BY webhook_id

-- name: find_webhook
-- One webhook.
SELECT webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at
FROM webhooks WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: delete_webhook
-- A webhook that shall hear nothing more.
DELETE FROM webhooks WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: set_active
-- Whether a webhook is to be told anything; the count of failures begins anew.
UPDATE webhooks SET is_active = %(is_active)s, failing_since = NULL, failures = 0, last_error = NULL
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s
RETURNING webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at

-- name: take_webhook
-- The webhook to work on, unless somebody does; who falls silent loses it.
UPDATE webhooks SET busy_until = clock_timestamp() + %(lease)s::interval
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s AND is_active AND busy_until < clock_timestamp()
RETURNING webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at

-- name: note_delivery
-- A delivery arrived: the webhook stands further on, and is kept for the next one.
UPDATE webhooks SET position = GREATEST(position, %(position)s), busy_until = clock_timestamp() + %(lease)s::interval,
    failing_since = NULL, failures = 0, last_error = NULL, delivered_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: note_failure
-- A delivery did not arrive.
UPDATE webhooks SET failing_since = COALESCE(failing_since, %(now)s), failures = failures + 1, last_error = %(error)s,
    busy_until = '-infinity'
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: leave_webhook
-- Nobody works on it any more.
UPDATE webhooks SET busy_until = '-infinity' WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: list_behind
-- Active webhooks that have not heard of everything.
SELECT webhook_id FROM webhooks w
WHERE tenant_id = %(tenant_id)s AND is_active AND EXISTS (
    SELECT FROM events e WHERE e.tenant_id = w.tenant_id AND e.position > w.position
        AND (w.types = '{}' OR e.type = ANY(w.types)))
    AND NOT EXISTS (SELECT FROM outbox o WHERE o.tenant_id = w.tenant_id AND o.topic = %(topic)s AND o.ref = w.webhook_id)
