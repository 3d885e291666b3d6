-- name: has_unplaced
-- Whether any event of the tenant has no position yet.
SELECT EXISTS (SELECT FROM events WHERE tenant_id = %(tenant_id)s AND position IS NULL)

-- name: open_feed
-- The feed of the tenant, made at its first use.
INSERT INTO event_feeds (tenant_id) VALUES (%(tenant_id)s) ON CONFLICT (tenant_id) DO NOTHING

-- name: lock_feed
-- Where the feed ends; nobody else moves it meanwhile.
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
-- The last position that was given.
SELECT last_position FROM event_feeds WHERE tenant_id = %(tenant_id)s

-- name: list_events
-- Events after a position, in the order of the feed.
SELECT position, at, type, subject_id, kind FROM events
WHERE tenant_id = %(tenant_id)s AND position > %(after)s AND (%(types)s::text[] = '{}' OR type = ANY(%(types)s))
ORDER BY position LIMIT %(limit)s

-- name: delete_events
-- Forget events of long ago: those numbered before the first that is younger.
DELETE FROM events WHERE tenant_id = %(tenant_id)s AND number < COALESCE((
    SELECT e.number FROM events e WHERE e.tenant_id = %(tenant_id)s AND e.at >= %(before)s ORDER BY e.number LIMIT 1),
    9223372036854775807)
