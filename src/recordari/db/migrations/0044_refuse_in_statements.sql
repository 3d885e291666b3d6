-- Lets a statement of a pipeline stop the ones after it: nothing of the transaction is written, and its caller goes another way.
CREATE FUNCTION refuse(reason text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', reason USING ERRCODE = 'unique_violation';
END $$;
