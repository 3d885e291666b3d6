-- Words of one memory, whatever others in the tenant say: the index of words knows the owner too. The collation is the one of
-- `items_of_owner` under another name, so that no plan takes that index, which reads a whole memory for each word.
CREATE INDEX items_words ON items USING gin (tenant_id, owner COLLATE "POSIX", tsv)
    WITH (fastupdate = on, gin_pending_list_limit = 64);
DROP INDEX items_text;
ALTER INDEX items_words RENAME TO items_text;
