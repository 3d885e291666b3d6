-- name: become_owner
-- Act as the owner, who alone may read the directory of tenants.
SET ROLE recordari_owner

-- name: list_tenants
-- Every tenant by name.
SELECT tenant_id, name, language, plan, settings, created_at FROM recordari.tenants ORDER BY name

-- name: list_members
-- The tenants of every organisation.
SELECT m.organisation, t.name AS tenant, m.joined_at FROM recordari.memberships m
JOIN recordari.tenants t ON t.tenant_id = m.tenant_id ORDER BY m.organisation, t.name
