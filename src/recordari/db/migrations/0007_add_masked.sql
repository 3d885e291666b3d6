-- How often each type of personal data and secrets was taken out of an item before it was written; NULL: nothing was.
ALTER TABLE items ADD COLUMN masked jsonb;
