-- The stable tail of a session begins at `epoch_from`, also before the first compression: it moves every twenty messages.

ALTER TABLE sessions
    ADD COLUMN tail_before integer NOT NULL DEFAULT 0,  -- messages before the tail
    ADD COLUMN tail_moves integer NOT NULL DEFAULT 0;   -- how often its beginning moved without a compression

COMMENT ON COLUMN sessions.epoch_from IS 'where the tail begins; null: with the first message';
