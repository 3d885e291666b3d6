-- What a memory has of a time, whatever others in the tenant did then: the index of owners knows the time too.
CREATE INDEX items_of_owner_in_time ON items (tenant_id, owner COLLATE "C", event_time);
DROP INDEX items_of_owner;
ALTER INDEX items_of_owner_in_time RENAME TO items_of_owner;
