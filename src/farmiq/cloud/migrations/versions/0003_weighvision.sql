-- What the edges' weigh stations recorded. Keys begin with the tenant: these ids are made by devices, and one tenant's event
-- must never reach another tenant's row. Events come in any order, so everything that another event brings may be unknown.
CREATE TABLE weight_sessions (
  tenant_id           text        NOT NULL,
  id                  uuid        NOT NULL,
  farm_id             text,
  barn_id             text,
  device_id           text,
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
  updated_at          timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);

CREATE INDEX weight_sessions_tenant_device_start ON weight_sessions (tenant_id, device_id, start_at DESC);
CREATE INDEX weight_sessions_tenant_status_start ON weight_sessions (tenant_id, status, start_at DESC);


-- An edge says where a picture lies by bucket and key; older ones gave a path.
CREATE TABLE media_objects (
  tenant_id   text        NOT NULL,
  id          uuid        NOT NULL,
  farm_id     text,
  barn_id     text,
  device_id   text,
  station_id  text,
  session_id  uuid,
  bucket      text,
  object_key  text,
  path        text,
  etag        text,
  mime_type   text        NOT NULL,
  size_bytes  bigint      CHECK (size_bytes >= 0),
  sha256      text        CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  captured_at timestamptz,
  created_at  timestamptz NOT NULL DEFAULT now(),
  state       text        NOT NULL DEFAULT 'announced' CHECK (state IN ('announced', 'stored', 'refused', 'missing')),
  stored_at   timestamptz,
  verified_at timestamptz,
  trace_id    text,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT media_objects_place CHECK ((bucket IS NULL) = (object_key IS NULL) AND num_nonnulls(object_key, path) > 0)
);

CREATE INDEX media_objects_tenant_session ON media_objects (tenant_id, session_id);
CREATE INDEX media_objects_tenant_device_captured ON media_objects (tenant_id, device_id, captured_at DESC);


CREATE TABLE inference_results (
  tenant_id           text        NOT NULL,
  id                  uuid        NOT NULL,
  farm_id             text,
  barn_id             text,
  device_id           text,
  session_id          uuid,
  media_id            uuid,
  predicted_weight_kg double precision,
  predicted_size      text,
  confidence          double precision CHECK (confidence BETWEEN 0 AND 1),
  model_version       text        NOT NULL,
  occurred_at         timestamptz NOT NULL,
  trace_id            text,
  created_at          timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);

CREATE INDEX inference_results_tenant_session ON inference_results (tenant_id, session_id);
CREATE INDEX inference_results_tenant_device_occurred ON inference_results (tenant_id, device_id, occurred_at DESC);
