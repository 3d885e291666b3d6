-- Words of one memory, whatever others in the tenant say: the index of words knows the owner too, and the user, whose sessions are
-- many owners. The collation is that of `items_of_owner` under another name, so that no plan takes an index which reads a whole
-- memory for each word.
CREATE INDEX items_words ON items USING gin (tenant_id, owner COLLATE "POSIX", user_id COLLATE "POSIX", tsv)
    WITH (fastupdate = on, gin_pending_list_limit = 64);
DROP INDEX items_text;
ALTER INDEX items_words RENAME TO items_text;
