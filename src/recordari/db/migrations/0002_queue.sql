-- Work to be done: ids of work, never content. The worker reads this schema across tenants.

-- A row is due when not_before has passed. Claiming it counts an attempt and moves not_before to the end of the lease,
-- so that a worker that dies leaves a row that comes due again with its crash already counted.
CREATE TABLE recordari_queue.outbox (
    outbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    tenant_id uuid NOT NULL,
    ref uuid NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    not_before timestamptz NOT NULL DEFAULT now(),
    last_error text,
    parked_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, fillfactor = 70);
-- The worker goes from tenant to tenant in these two. Rows tried before have an index of their own: they are tried alone.
CREATE INDEX outbox_fresh ON recordari_queue.outbox (topic, tenant_id, not_before)
    WHERE parked_at IS NULL AND attempts = 0;
CREATE INDEX outbox_tried ON recordari_queue.outbox (topic, tenant_id, not_before)
    WHERE parked_at IS NULL AND attempts > 0;
CREATE INDEX outbox_by_tenant ON recordari_queue.outbox (tenant_id, topic);

CREATE TABLE recordari_queue.schedules (
    tenant_id uuid NOT NULL,
    job text NOT NULL,
    next_at timestamptz NOT NULL,
    last_at timestamptz,
    PRIMARY KEY (tenant_id, job)
);
CREATE INDEX schedules_due ON recordari_queue.schedules (job, next_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON recordari_queue.outbox, recordari_queue.schedules TO recordari_app;
GRANT SELECT, INSERT, DELETE ON recordari_queue.outbox TO recordari_retention;
GRANT SELECT, DELETE ON recordari_queue.schedules TO recordari_retention;
