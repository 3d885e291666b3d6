-- name: find_usage
-- What the tenant used when it was last counted or written, with its plan; no row of usage before the first count.
SELECT t.plan, t.settings, u.items, u.bytes, u.writes, u.day
FROM tenants t LEFT JOIN usage u ON u.tenant_id = t.tenant_id WHERE t.tenant_id = %(tenant_id)s

-- name: add_usage
-- What was written since the last time.
INSERT INTO usage (tenant_id, items, bytes, writes, day) VALUES (%(tenant_id)s, %(items)s, %(bytes)s, %(writes)s, %(day)s)
ON CONFLICT (tenant_id) DO UPDATE SET items = usage.items + excluded.items, bytes = usage.bytes + excluded.bytes,
    writes = CASE WHEN usage.day = excluded.day THEN usage.writes ELSE 0 END + excluded.writes,
    day = GREATEST(usage.day, excluded.day)

-- name: measure_usage
-- Count what is really kept; the day's writes stay as they are.
INSERT INTO usage (tenant_id, items, bytes, writes, day, measured_at)
SELECT %(tenant_id)s, count(*), COALESCE(sum(octet_length(content)), 0)
    + COALESCE((SELECT sum(p.bytes) FROM payloads p WHERE p.tenant_id = %(tenant_id)s), 0), 0, %(day)s, now()
FROM items WHERE tenant_id = %(tenant_id)s AND anonymized_at IS NULL
ON CONFLICT (tenant_id) DO UPDATE SET items = excluded.items, bytes = excluded.bytes, measured_at = excluded.measured_at
