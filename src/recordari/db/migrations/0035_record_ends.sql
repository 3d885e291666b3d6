-- When an end was recorded. `invalid_at` says until when an item was true, which may be long before anybody said so.
ALTER TABLE items ADD COLUMN retired_at timestamptz;
ALTER TABLE items NO FORCE ROW LEVEL SECURITY;
ALTER TABLE items DISABLE TRIGGER USER;
UPDATE items SET retired_at = GREATEST(invalid_at, created_at) WHERE invalid_at IS NOT NULL;
ALTER TABLE items ENABLE TRIGGER USER;
ALTER TABLE items FORCE ROW LEVEL SECURITY;

-- By a trigger, so that every writer keeps the rule. An end that is moved was known before; one that is taken back was not.
CREATE FUNCTION note_retirement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.retired_at := CASE WHEN NEW.invalid_at IS NOT NULL THEN COALESCE(OLD.retired_at, now()) END;
    RETURN NEW;
END $$;
CREATE TRIGGER items_note_retirement BEFORE UPDATE ON items FOR EACH ROW
    WHEN ((OLD.invalid_at IS NULL) <> (NEW.invalid_at IS NULL)) EXECUTE FUNCTION note_retirement();
