-- An archived item stays in recall: its vectors stay live, and say that it is archived.

ALTER TABLE vectors ADD COLUMN archived boolean NOT NULL DEFAULT false;
ALTER TABLE vectors NO FORCE ROW LEVEL SECURITY;
ALTER TABLE items NO FORCE ROW LEVEL SECURITY;
UPDATE vectors v SET archived = true,
    live = i.invalid_at IS NULL AND i.superseded_by IS NULL AND i.deleted_at IS NULL AND i.anonymized_at IS NULL
FROM items i WHERE i.tenant_id = v.tenant_id AND i.item_id = v.item_id AND i.archived_at IS NOT NULL;
ALTER TABLE items FORCE ROW LEVEL SECURITY;
ALTER TABLE vectors FORCE ROW LEVEL SECURITY;

-- By bytes, so that all sessions of a user are one range of owners, whatever the collation of the database is.
DROP INDEX vectors_by_owner;
CREATE INDEX vectors_by_owner ON vectors (tenant_id, model_id, owner COLLATE "C", kind, event_time) WHERE live;
