-- Models that were put to work here. A version names one file for ever: results carry it, and their ids follow from it.
-- generation: counts activations. The model with the highest one is at work; activating an older model again gives it the next.
-- source: where the file is read from, `packaged`, a path or s3://bucket/key. What was tried is sha256; nothing else is loaded.
CREATE TABLE inference_models (
  model_version text        PRIMARY KEY,
  generation    integer     NOT NULL UNIQUE CHECK (generation > 0),
  source        text        NOT NULL,
  sha256        text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  size_bytes    bigint      NOT NULL CHECK (size_bytes > 0),
  card          jsonb       NOT NULL,
  registered_at timestamptz NOT NULL DEFAULT now(),
  activated_at  timestamptz NOT NULL DEFAULT now()
);


-- One row for each picture that is looked at, written in the transaction that stores it. Looking at it again, for another model or
-- because it failed, is the same row once more. What was found out is in inference_results, one row for each model version.
-- lane 0: a picture that just came. lane 1: one that is looked at again; it waits while there are others.
-- attempt_count goes up with every claim, so that a picture which ends the service itself is given up in the end too.
-- model_version: the model that it is for, if that was said; once it is done, the model that looked.
CREATE TABLE inference_jobs (
  id                 uuid        PRIMARY KEY,
  tenant_id          text        NOT NULL,
  farm_id            text        NOT NULL,
  barn_id            text        NOT NULL,
  device_id          text        NOT NULL,
  session_id         uuid,
  media_id           uuid        NOT NULL UNIQUE,
  bucket             text        NOT NULL,
  object_key         text        NOT NULL,
  sha256             text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  trace_id           text,
  model_version      text,
  state              text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'running', 'done', 'failed')),
  lane               smallint    NOT NULL DEFAULT 0 CHECK (lane IN (0, 1)),
  attempt_count      integer     NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
  next_attempt_at    timestamptz NOT NULL DEFAULT now(),
  claimed_by         text,
  -- Fencing, as in sync_outbox: goes up with every claim, and when somebody asks for the picture to be looked at again.
  claim_token        bigint      NOT NULL DEFAULT 0,
  lease_expires_at   timestamptz,
  last_error_code    text,
  last_error_message text,
  result_id          uuid,
  requested_at       timestamptz NOT NULL DEFAULT now(),
  finished_at        timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

CREATE INDEX inference_jobs_pending ON inference_jobs (lane, next_attempt_at, id) WHERE state = 'pending';
CREATE INDEX inference_jobs_running ON inference_jobs (id) WHERE state = 'running';
CREATE INDEX inference_jobs_failed ON inference_jobs (tenant_id, finished_at DESC) WHERE state = 'failed';
CREATE INDEX inference_jobs_finished ON inference_jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX inference_jobs_tenant ON inference_jobs (tenant_id, requested_at DESC, id DESC);

-- The order in which results are shown, and the one in which old ones go.
CREATE INDEX inference_results_tenant_occurred ON inference_results (tenant_id, occurred_at DESC, id DESC);
CREATE INDEX inference_results_created ON inference_results (created_at);
