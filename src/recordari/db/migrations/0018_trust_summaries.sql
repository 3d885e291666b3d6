-- The trust of a session's summary: the least of the messages in it, so that nobody's words pass for the agent's own.

ALTER TABLE sessions ADD COLUMN summary_trust text NOT NULL DEFAULT 'agent'
    CHECK (summary_trust IN ('user', 'agent', 'tool', 'document', 'external'));
