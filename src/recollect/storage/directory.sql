-- name: become_owner
-- Act as the owner, who alone may read the directory of tenants.
SET ROLE recollect_owner

-- name: list_tenants
-- Every tenant by name.
SELECT tenant_id, name, language, plan, settings, created_at FROM recollect.tenants ORDER BY name
