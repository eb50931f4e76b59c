-- One row for each weigh session. Events come in any order, so everything that another event brings may still be unknown.
-- A session whose pictures have not come in time is incomplete since a moment, whatever its status; it heals when they arrive.
CREATE TABLE weight_sessions (
  id                  uuid        PRIMARY KEY,
  tenant_id           text        NOT NULL,
  farm_id             text        NOT NULL,
  barn_id             text        NOT NULL,
  device_id           text        NOT NULL,
  station_id          text,
  batch_id            text,
  status              text        NOT NULL DEFAULT 'created' CHECK (status IN ('created', 'finalized', 'cancelled')),
  start_at            timestamptz,
  end_at              timestamptz,
  initial_weight_kg   double precision,
  final_weight_kg     double precision,
  image_count         integer     CHECK (image_count >= 0),
  inference_result_id uuid,
  incomplete_since    timestamptz,
  trace_id            text,
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX weight_sessions_tenant_device_start ON weight_sessions (tenant_id, device_id, start_at DESC);
CREATE INDEX weight_sessions_tenant_status_start ON weight_sessions (tenant_id, status, start_at DESC);


-- A row is made when the upload URL is signed. It says stored only after the bytes were read back and agreed.
-- No foreign key to the session: a picture may come first.
CREATE TABLE media_objects (
  id          uuid        PRIMARY KEY,
  tenant_id   text        NOT NULL,
  farm_id     text        NOT NULL,
  barn_id     text        NOT NULL,
  device_id   text        NOT NULL,
  station_id  text,
  session_id  uuid,
  bucket      text        NOT NULL,
  object_key  text        NOT NULL,
  etag        text,
  mime_type   text        NOT NULL,
  size_bytes  bigint      CHECK (size_bytes >= 0),
  sha256      text        CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  captured_at timestamptz NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  state       text        NOT NULL DEFAULT 'presigned' CHECK (state IN ('presigned', 'stored', 'refused', 'missing')),
  expires_at  timestamptz,
  stored_at   timestamptz,
  verified_at timestamptz,
  trace_id    text,
  CONSTRAINT media_objects_object UNIQUE (bucket, object_key)
);

CREATE INDEX media_objects_tenant_session ON media_objects (tenant_id, session_id);
CREATE INDEX media_objects_tenant_device_captured ON media_objects (tenant_id, device_id, captured_at DESC);
CREATE INDEX media_objects_awaited ON media_objects (created_at) WHERE state = 'presigned';


CREATE TABLE inference_results (
  id                  uuid        PRIMARY KEY,
  tenant_id           text        NOT NULL,
  farm_id             text        NOT NULL,
  barn_id             text        NOT NULL,
  device_id           text        NOT NULL,
  session_id          uuid,
  media_id            uuid,
  predicted_weight_kg double precision,
  predicted_size      text,
  confidence          double precision CHECK (confidence BETWEEN 0 AND 1),
  model_version       text        NOT NULL,
  occurred_at         timestamptz NOT NULL,
  trace_id            text,
  created_at          timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX inference_results_tenant_session ON inference_results (tenant_id, session_id);
CREATE INDEX inference_results_tenant_device_occurred ON inference_results (tenant_id, device_id, occurred_at DESC);
CREATE INDEX inference_results_media ON inference_results (media_id) WHERE media_id IS NOT NULL;
