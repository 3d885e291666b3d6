-- Whose vector it is, as one value. The index holds all that a recall can filter by, so that the vectors which may
-- answer are counted without reading them, and read alone when they are few, however large the tenant is.

ALTER TABLE vectors ADD COLUMN owner text GENERATED ALWAYS AS (
    scope || ':' || CASE scope WHEN 'user' THEN user_id WHEN 'agent' THEN agent_id WHEN 'session' THEN session_id ELSE '' END
) STORED;
CREATE INDEX vectors_by_owner ON vectors (tenant_id, model_id, owner, kind, event_time) WHERE live;

-- The same rule as before, told by columns of that index alone, so that counting in it need not read the rows.
DROP POLICY tenant_and_user ON vectors;
CREATE POLICY tenant_and_user ON vectors TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant() AND (
        left(owner, 5) <> 'user:' OR owner = 'user:' || current_app_user() OR current_app_user() IS NULL))
    WITH CHECK (tenant_id = current_tenant() AND (
        left(owner, 5) <> 'user:' OR owner = 'user:' || current_app_user() OR current_app_user() IS NULL));
