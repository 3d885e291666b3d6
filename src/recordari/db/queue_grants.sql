-- Our additions to the job queue's own schema, run after each of its upgrades: every statement must be repeatable.

-- Its jobs carry their tenant in their arguments.
CREATE INDEX IF NOT EXISTS jobs_by_tenant ON procrastinate_jobs ((args ->> 'tenant_id'), id);
CREATE INDEX IF NOT EXISTS jobs_open ON procrastinate_jobs (task_name, (args ->> 'tenant_id'))
    WHERE status IN ('todo', 'doing');

-- Why a job failed the last time: the class of the error, never its message.
CREATE TABLE IF NOT EXISTS job_failures (
    job_id bigint PRIMARY KEY REFERENCES procrastinate_jobs ON DELETE CASCADE,
    error text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT now()
);

-- The application uses the job queue; it does not own it.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA recordari_queue TO recordari_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA recordari_queue TO recordari_app;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA recordari_queue TO recordari_app;
