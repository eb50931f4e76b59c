-- Up to when a job believes the clock: what it deletes goes by this time. It goes on with the clock by a few intervals a run at most,
-- and never back. NULL: the job has not run since this revision.
ALTER TABLE job_runs ADD COLUMN believed_at timestamptz;
