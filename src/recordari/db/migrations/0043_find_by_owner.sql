-- An item carries the owner of what may be recalled together, as its vectors do: who asks finds their own by one index,
-- whatever else the tenant has.
ALTER TABLE items ADD COLUMN owner text GENERATED ALWAYS AS (CASE scope
    WHEN 'user' THEN 'user:' || user_id WHEN 'agent' THEN 'agent:' || agent_id
    WHEN 'session' THEN 'session:' || COALESCE('user:' || user_id, 'agent:' || agent_id, 'tenant') || chr(31) || session_id
    ELSE 'tenant:' END) STORED;
-- By bytes: all sessions of a user are one range.
CREATE INDEX items_of_owner ON items (tenant_id, owner COLLATE "C");
SELECT sample_no_text();
