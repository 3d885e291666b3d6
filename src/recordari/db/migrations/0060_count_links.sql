-- A new link from a fact to what it was taken from changes what recall shows: it counts as a change of the fact's owner, so that
-- a process may keep links together with items. A fact of the same transaction was counted already.
CREATE FUNCTION count_new_links() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM recordari.count_change(c.tenant_id, c.class) FROM (
        SELECT DISTINCT i.tenant_id, i.class FROM added a CROSS JOIN LATERAL (
            SELECT i.tenant_id, recordari.owner_class(i.scope, i.user_id, i.agent_id, i.session_id) AS class
            FROM recordari.items i
            WHERE i.tenant_id = a.tenant_id AND i.item_id = a.item_id AND i.xmin <> pg_current_xact_id()::xid OFFSET 0) i) c;
    RETURN NULL;
END $$;
CREATE TRIGGER evidence_counts_links AFTER INSERT ON evidence
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_links();
