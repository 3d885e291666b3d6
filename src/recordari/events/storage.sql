-- name: has_unplaced
-- Whether any event of the tenant has no position yet.
SELECT EXISTS (SELECT 1 FROM events WHERE tenant_id = %(tenant_id)s AND position IS NULL)

-- name: open_feed
-- Create the feed of the tenant on first use.
INSERT INTO event_feeds (tenant_id) VALUES (%(tenant_id)s) ON CONFLICT (tenant_id) DO NOTHING

-- name: lock_feed
-- Lock the end of the feed.
SELECT last_position FROM event_feeds WHERE tenant_id = %(tenant_id)s FOR UPDATE

-- name: place_events
-- Give positions to events that have none, and move the end of the feed.
WITH placed AS (
    UPDATE events e SET position = %(last)s + fresh.place
    FROM (
        SELECT number, row_number() OVER (ORDER BY number) AS place FROM (
            SELECT number FROM events WHERE tenant_id = %(tenant_id)s AND position IS NULL
            ORDER BY number LIMIT %(limit)s) unplaced
    ) fresh
    WHERE e.tenant_id = %(tenant_id)s AND e.number = fresh.number
    RETURNING 1
)
UPDATE event_feeds SET last_position = %(last)s + (SELECT count(*) FROM placed)
WHERE tenant_id = %(tenant_id)s RETURNING (SELECT count(*) FROM placed)

-- name: feed_end
-- The last position of the feed.
SELECT last_position FROM event_feeds WHERE tenant_id = %(tenant_id)s

-- name: list_events
-- Events after a position, in the order of the feed.
SELECT position, at, type, subject_id, kind FROM events
WHERE tenant_id = %(tenant_id)s AND position > %(after)s AND (%(types)s::text[] = '{}' OR type = ANY(%(types)s))
ORDER BY position LIMIT %(limit)s

-- name: delete_events
-- Delete old events: those before the first younger one.
DELETE FROM events WHERE tenant_id = %(tenant_id)s AND number < COALESCE((
    SELECT e.number FROM events e WHERE e.tenant_id = %(tenant_id)s AND e.at >= %(before)s ORDER BY e.number LIMIT 1),
    9223372036854775807)

-- name: insert_webhook
-- A new webhook at a position of the feed.
INSERT INTO webhooks (tenant_id, webhook_id, url, types, secret, position)
VALUES (%(tenant_id)s, %(webhook_id)s, %(url)s, %(types)s, %(secret)s, %(position)s)
RETURNING webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at

-- name: list_webhooks
-- The webhooks of the tenant, oldest first.
SELECT webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at
FROM webhooks WHERE tenant_id = %(tenant_id)s ORDER BY webhook_id

-- name: find_webhook
-- One webhook.
SELECT webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at
FROM webhooks WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: delete_webhook
-- Delete a webhook.
DELETE FROM webhooks WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: set_active
-- Switch a webhook on or off and reset its failures.
UPDATE webhooks SET is_active = %(is_active)s, failing_since = NULL, failures = 0, last_error = NULL
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s
RETURNING webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at

-- name: take_webhook
-- Lease a webhook, unless another worker holds its lease.
UPDATE webhooks SET busy_until = now() + %(lease)s::interval
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s AND is_active AND busy_until < now()
RETURNING webhook_id, url, types, secret, is_active, position, failing_since, failures, last_error, delivered_at, created_at

-- name: note_delivery
-- A delivery succeeded: advance the position and renew the lease.
UPDATE webhooks SET position = GREATEST(position, %(position)s), busy_until = now() + %(lease)s::interval,
    failing_since = NULL, failures = 0, last_error = NULL, delivered_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: note_failure
-- A delivery failed.
UPDATE webhooks SET failing_since = COALESCE(failing_since, %(now)s), failures = failures + 1, last_error = %(error)s,
    busy_until = '-infinity'
WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: leave_webhook
-- Release the lease.
UPDATE webhooks SET busy_until = '-infinity' WHERE tenant_id = %(tenant_id)s AND webhook_id = %(webhook_id)s

-- name: list_behind
-- Active webhooks that are behind the feed.
SELECT webhook_id FROM webhooks w
WHERE tenant_id = %(tenant_id)s AND is_active AND EXISTS (
    SELECT 1 FROM events e WHERE e.tenant_id = w.tenant_id AND e.position > w.position
        AND (w.types = '{}' OR e.type = ANY(w.types)))
    AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.tenant_id = w.tenant_id AND o.topic = %(topic)s AND o.ref = w.webhook_id)
