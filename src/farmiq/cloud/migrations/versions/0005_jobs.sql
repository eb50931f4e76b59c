-- One row for each job: when it ran last, what came of it, and on which replica. Whoever runs a job holds its advisory lock;
-- this row keeps the others from repeating it as soon as the lock is free.
CREATE TABLE job_runs (
  job_name              text             PRIMARY KEY,
  last_started_at       timestamptz      NOT NULL,
  last_finished_at      timestamptz,
  last_succeeded_at     timestamptz,
  last_failed_at        timestamptz,
  last_duration_seconds double precision,
  last_report           jsonb            NOT NULL DEFAULT '{}',
  last_error            text,
  last_instance_id      text             NOT NULL
) WITH (fillfactor = 50);


-- How many samples the daily aggregates that are gone had counted. `stored` in the totals is this and the days that are left.
CREATE TABLE retired_samples (
  only_row boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
  samples  bigint  NOT NULL DEFAULT 0
);

INSERT INTO retired_samples DEFAULT VALUES;
