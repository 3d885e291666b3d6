-- A profile shows learnt procedures too: one that comes, changes or ends makes its owner's profile stale.

DROP TRIGGER items_outdate_profile_insert ON items;
CREATE TRIGGER items_outdate_profile_insert AFTER INSERT ON items FOR EACH ROW
    WHEN (NEW.kind IN ('fact', 'procedure') AND NEW.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
DROP TRIGGER items_outdate_profile_update ON items;
CREATE TRIGGER items_outdate_profile_update
    AFTER UPDATE OF content, category, confidence, pinned_at, invalid_at, superseded_by, archived_at, deleted_at, anonymized_at
    ON items FOR EACH ROW
    WHEN (OLD.kind IN ('fact', 'procedure') AND OLD.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
DROP TRIGGER items_outdate_profile_delete ON items;
CREATE TRIGGER items_outdate_profile_delete AFTER DELETE ON items FOR EACH ROW
    WHEN (OLD.kind IN ('fact', 'procedure') AND OLD.scope IN ('user', 'agent')) EXECUTE FUNCTION outdate_profile();
