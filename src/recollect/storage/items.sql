-- name: insert_items
-- New items in the order given, each at the next place of its thread, and work to be done on them; keys that exist are
-- left alone. Look-ups by key stand in LATERAL … OFFSET 0: a plan for every tenant would rather read all of a small one.
WITH given AS (
    SELECT * FROM unnest(
        %(item_ids)s::uuid[], %(kinds)s::text[], %(scopes)s::text[], %(tiers)s::text[], %(user_ids)s::text[],
        %(agent_ids)s::text[], %(session_ids)s::text[], %(run_ids)s::text[], %(source_refs)s::text[],
        %(source_ids)s::uuid[], %(threads)s::text[], %(contents)s::text[], %(content_hashes)b::bytea[],
        %(speakers)s::text[], %(trusts)s::text[], %(event_times)s::timestamptz[], %(valid_ats)s::timestamptz[],
        %(subjects)s::text[], %(predicates)s::text[], %(objects)s::text[], %(confidences)s::real[],
        %(categories)s::text[], %(payload_keys)s::text[], %(metadatas)s::jsonb[], %(maskeds)s::jsonb[], %(tsvs)s::text[],
        %(terms)b::bytea[], %(tokens)b::bytea[], %(traits)s::smallint[]
    ) WITH ORDINALITY AS g (
        item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, source_id, thread, content,
        content_hash, speaker, trust, event_time, valid_at, subject, predicate, object, confidence, category,
        payload_key, metadata, masked, tsv, terms, tokens, traits, ordinal)
), fresh AS (
    SELECT DISTINCT ON (kind, source_ref) g.* FROM given g LEFT JOIN LATERAL (
        SELECT true AS is_known FROM items i
        WHERE i.tenant_id = %(tenant_id)s AND i.kind = g.kind AND i.source_ref = g.source_ref OFFSET 0) k ON true
    WHERE k.is_known IS NULL
    ORDER BY kind, source_ref, ordinal
), last AS (
    SELECT thread, (
        SELECT max(position) FROM items i WHERE i.tenant_id = %(tenant_id)s AND i.thread = t.thread) AS position
    FROM (SELECT DISTINCT thread FROM fresh WHERE thread IS NOT NULL) t
), noted AS (
    INSERT INTO users (tenant_id, user_id)
    SELECT %(tenant_id)s::uuid, f.user_id FROM fresh f LEFT JOIN LATERAL (
        SELECT true AS is_known FROM users u
        WHERE u.tenant_id = %(tenant_id)s AND u.user_id = f.user_id OFFSET 0) k ON true
    WHERE f.user_id IS NOT NULL AND k.is_known IS NULL
    GROUP BY f.user_id HAVING NOT is_erased_user(f.user_id, max(f.event_time))
    ON CONFLICT (tenant_id, user_id) DO NOTHING
), made AS (
INSERT INTO items (
    tenant_id, item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, source_id, thread, position,
    content, content_hash, speaker, trust, event_time, valid_at, subject, predicate, object, confidence, category,
    payload_key, metadata, masked, tsv, terms, tokens, traits)
SELECT
    %(tenant_id)s::uuid, item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, source_id, f.thread,
    CASE WHEN f.thread IS NOT NULL THEN
        COALESCE(last.position, 0) + row_number() OVER (PARTITION BY f.thread ORDER BY ordinal) END,
    content, content_hash, speaker, trust, event_time, valid_at, subject, predicate, object, confidence, category,
    payload_key, metadata, masked, tsv::tsvector, terms, tokens, traits
FROM fresh f LEFT JOIN last ON last.thread = f.thread
ORDER BY ordinal
ON CONFLICT (tenant_id, kind, source_ref) DO NOTHING
RETURNING item_id
), asked AS (
    INSERT INTO outbox (topic, tenant_id, ref) SELECT %(topic)s::text, %(tenant_id)s::uuid, item_id FROM made
)
SELECT item_id FROM made

-- name: find_keys
-- Which row stands behind each key, whose it is, and the hash of its text.
SELECT i.kind, i.source_ref, i.item_id, i.content_hash, i.scope, i.user_id, i.agent_id, i.session_id
FROM unnest(%(kinds)s::text[], %(source_refs)s::text[]) AS k (kind, source_ref)
JOIN items i ON i.tenant_id = %(tenant_id)s AND i.kind = k.kind AND i.source_ref = k.source_ref

-- name: act_for_the_tenant
-- Look past the user's own rows, as the role whose policy is the tenant alone.
SET LOCAL ROLE recollect_retention

-- name: is_taken
-- Whether any row of the tenant stands behind a key.
SELECT EXISTS (SELECT FROM items WHERE tenant_id = %(tenant_id)s AND kind = %(kind)s AND source_ref = %(source_ref)s)

-- name: act_for_the_user
-- Back to the application's own role.
SET LOCAL ROLE NONE

-- name: replace_item
-- Give a row another text; what was derived from the old one goes.
WITH gone AS (
    DELETE FROM vectors WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
), unmentioned AS (
    DELETE FROM mentions WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s
)
UPDATE items SET
    content = %(content)s, content_hash = %(content_hash)s, event_time = %(event_time)s, payload_key = %(payload_key)s,
    metadata = %(metadata)s, masked = %(masked)s, tsv = %(tsv)s::tsvector, terms = %(terms)s, tokens = %(tokens)s,
    traits = %(traits)s
WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND anonymized_at IS NULL

-- name: find_item
-- One item that is not redacted.
SELECT item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, content, speaker, trust, event_time,
    created_at, valid_at, invalid_at, superseded_by, subject, predicate, object, confidence, category, payload_key, metadata,
    shared_from
FROM items WHERE tenant_id = %(tenant_id)s AND item_id = %(item_id)s AND deleted_at IS NULL AND anonymized_at IS NULL

-- name: find_items
-- The items of these ids that were not redacted meanwhile, in no particular order.
SELECT item_id, kind, scope, tier, user_id, agent_id, session_id, run_id, source_ref, content, speaker, trust, event_time,
    created_at, valid_at, invalid_at, superseded_by, subject, predicate, object, confidence, category, payload_key, metadata,
    shared_from
FROM items
WHERE tenant_id = %(tenant_id)s AND item_id = ANY(%(item_ids)s) AND deleted_at IS NULL AND anonymized_at IS NULL

-- name: insert_payload
-- The whole body behind an elided item; the same key keeps the newest body.
INSERT INTO payloads (tenant_id, payload_key, item_id, bytes, sha256, body, object_key)
VALUES (%(tenant_id)s, %(payload_key)s, %(item_id)s, %(bytes)s, %(sha256)s, %(body)s, %(object_key)s)
ON CONFLICT (tenant_id, payload_key) DO UPDATE SET
    bytes = excluded.bytes, sha256 = excluded.sha256, body = excluded.body, object_key = excluded.object_key

-- name: find_payload
-- A body that the identity may see, with the item it stands behind.
SELECT p.payload_key, p.item_id, p.media_type, p.bytes AS size, p.body, p.object_key
FROM payloads p JOIN items i ON i.tenant_id = p.tenant_id AND i.item_id = p.item_id
WHERE p.tenant_id = %(tenant_id)s AND p.payload_key = %(payload_key)s
    AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
    AND (i.scope = 'tenant' OR (i.scope = 'user' AND i.user_id = %(user_id)s)
        OR (i.scope = 'agent' AND i.agent_id = %(agent_id)s)
        OR (i.scope = 'session' AND i.session_id = ANY(%(session_ids)s)) OR %(is_admin)s)
