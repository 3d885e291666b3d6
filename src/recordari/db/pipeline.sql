-- name: bind
-- Bind the transaction to a tenant, a user and a role, for row-level security, and make plans for all tenants: they must not
-- read a whole table, even if there are few tenants at that moment. With a thread, wait for others that write to it.
SELECT set_config('app.tenant_id', %(tenant)s::text, true), set_config('app.user_id', %(user)s::text, true),
    set_config('role', %(role)s::text, true),
    set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
    pg_advisory_xact_lock(thread_lock(%(tenant)s::uuid, %(thread)s::text))

-- name: bind_nodes
-- The same here and on every node of a cluster; plans are made for one tenant.
SELECT recordari.bind_nodes(%(tenant)s::text, %(user)s::text, %(role)s::text)

-- name: take_thread
-- Wait on the tenant's node for others that write to a thread: there all writers take that lock.
SELECT pg_advisory_xact_lock(thread_lock(%(tenant)s::uuid, %(thread)s::text)) FROM tenants t WHERE t.tenant_id = %(tenant)s::uuid

-- name: plan_by_index
-- Make the following plans for all tenants.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)

-- name: plan_as_usual
-- Make plans as usual again.
SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true)
