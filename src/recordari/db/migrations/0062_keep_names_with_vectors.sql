-- A vector carries the names that its item mentions: a recall reads both together, and follows no name to its entity.
ALTER TABLE vectors ADD COLUMN names text[] NOT NULL DEFAULT '{}';
ALTER TABLE vectors NO FORCE ROW LEVEL SECURITY;
ALTER TABLE mentions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE entities NO FORCE ROW LEVEL SECURITY;
UPDATE vectors v SET names = n.names FROM (
    SELECT m.tenant_id, m.item_id, array_agg(e.key) AS names
    FROM mentions m JOIN entities e ON e.tenant_id = m.tenant_id AND e.entity_id = m.entity_id
    GROUP BY m.tenant_id, m.item_id) n
WHERE v.tenant_id = n.tenant_id AND v.item_id = n.item_id;
ALTER TABLE entities FORCE ROW LEVEL SECURITY;
ALTER TABLE mentions FORCE ROW LEVEL SECURITY;
ALTER TABLE vectors FORCE ROW LEVEL SECURITY;
SELECT sample_no_text();
