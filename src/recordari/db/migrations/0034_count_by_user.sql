-- The sessions of a user are one class of owners: who searches the user's other sessions reads one count for all of them.
CREATE OR REPLACE FUNCTION owner_class(scope text, user_id text, agent_id text, session_id text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (hashtextextended(scope || ':' || COALESCE(
        CASE scope WHEN 'user' THEN user_id WHEN 'agent' THEN agent_id
            WHEN 'session' THEN COALESCE('user:' || user_id, session_id) END, ''), 0)
        & 4095)::integer;
