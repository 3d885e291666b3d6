-- Rows are numbered by sequences instead of identity columns, which a cluster divides but does not give back. Numbers go on as before.
DO $$
DECLARE
    numbered record;
    sequence text;
    last_number bigint;
BEGIN
    FOR numbered IN
        SELECT * FROM (VALUES ('recordari.events', 'number'), ('recordari.item_counts', 'number'),
            ('recordari.profile_changes', 'change_id'), ('recordari_queue.outbox', 'outbox_id')) AS n (relation, field)
    LOOP
        sequence := pg_get_serial_sequence(numbered.relation, numbered.field);
        EXECUTE format('SELECT last_value FROM %s', sequence) INTO last_number;
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY', numbered.relation, numbered.field);
        EXECUTE format('CREATE SEQUENCE %s OWNED BY %s.%I', sequence, numbered.relation, numbered.field);
        PERFORM setval(sequence, last_number);
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT nextval(%L)', numbered.relation, numbered.field, sequence);
        EXECUTE format('GRANT USAGE ON SEQUENCE %s TO recordari_app, recordari_retention', sequence);
    END LOOP;
END $$;
