-- What cloud-analytics-service has heard, from events only. Keys begin with the tenant. Every row is a merge that gives the same
-- whatever the order and however often: the greatest by a total order stays, or the first of one event id.

-- One hour of one series. The greatest (revision, count, event_id) stays. Where a device stood belongs to the key: a
-- device that was carried to another barn has hours in both. The columns stand in the order in which a barn's days are read.
CREATE TABLE analytics_hours (
  tenant_id   text             NOT NULL,
  farm_id     text             NOT NULL,
  barn_id     text             NOT NULL,
  hour_at     timestamptz      NOT NULL,
  device_id   text             NOT NULL,
  metric_type text             NOT NULL,
  sensor      text             NOT NULL,
  unit        text             NOT NULL,
  revision    bigint           NOT NULL,
  count       bigint           NOT NULL,
  mean_value  double precision NOT NULL,
  min_value   double precision NOT NULL,
  max_value   double precision NOT NULL,
  event_id    uuid             NOT NULL,
  PRIMARY KEY (tenant_id, farm_id, barn_id, hour_at, device_id, metric_type, sensor, unit)
);

CREATE INDEX analytics_hours_hour ON analytics_hours (hour_at);


-- When a series was last heard, and what it said then. Updated by every micro-batch and indexed by nothing that changes.
CREATE TABLE analytics_series (
  tenant_id   text             NOT NULL,
  farm_id     text             NOT NULL,
  barn_id     text             NOT NULL,
  device_id   text             NOT NULL,
  metric_type text             NOT NULL,
  sensor      text             NOT NULL,
  unit        text             NOT NULL,
  heard_at    timestamptz      NOT NULL,
  value       double precision NOT NULL,
  PRIMARY KEY (tenant_id, farm_id, barn_id, device_id, metric_type, sensor, unit)
) WITH (fillfactor = 50);

CREATE INDEX analytics_series_device ON analytics_series (tenant_id, device_id);


-- A weigh session. Any of its events may come first, so everything but its name may be unknown. Whoever changes something
-- about a session updates this row, and so waits for whoever else does. The place is that of the end, else of the beginning.
CREATE TABLE analytics_sessions (
  tenant_id           text        NOT NULL,
  session_id          uuid        NOT NULL,
  touched_at          timestamptz NOT NULL,
  farm_id             text,
  barn_id             text,
  device_id           text,
  batch_id            text        NOT NULL DEFAULT '',
  created_at          timestamptz,
  created_event_id    uuid,
  initial_weight_kg   double precision,
  finalized_at        timestamptz,
  end_revision        integer,
  end_at              timestamptz,
  end_event_id        uuid,
  final_weight_kg     double precision,
  inference_result_id uuid,
  PRIMARY KEY (tenant_id, session_id)
);

CREATE INDEX analytics_sessions_barn ON analytics_sessions (tenant_id, farm_id, barn_id, finalized_at)
  WHERE finalized_at IS NOT NULL;
CREATE INDEX analytics_sessions_batch ON analytics_sessions (tenant_id, farm_id, barn_id, batch_id, finalized_at)
  WHERE finalized_at IS NOT NULL;
CREATE INDEX analytics_sessions_touched ON analytics_sessions (touched_at);


CREATE TABLE analytics_weights (
  tenant_id   text             NOT NULL,
  event_id    uuid             NOT NULL,
  session_id  uuid             NOT NULL,
  occurred_at timestamptz      NOT NULL,
  weight_kg   double precision NOT NULL,
  PRIMARY KEY (tenant_id, event_id)
);

CREATE INDEX analytics_weights_session ON analytics_weights (tenant_id, session_id);
CREATE INDEX analytics_weights_occurred ON analytics_weights (occurred_at);


CREATE TABLE analytics_inferences (
  tenant_id           text             NOT NULL,
  event_id            uuid             NOT NULL,
  session_id          uuid             NOT NULL,
  occurred_at         timestamptz      NOT NULL,
  inference_result_id uuid             NOT NULL,
  predicted_weight_kg double precision NOT NULL,
  confidence          double precision NOT NULL,
  model_version       text             NOT NULL,
  PRIMARY KEY (tenant_id, event_id)
);

CREATE INDEX analytics_inferences_session ON analytics_inferences (tenant_id, session_id);
CREATE INDEX analytics_inferences_occurred ON analytics_inferences (occurred_at);


-- Declared losses, with the time that they cover: where the damage ate the times, both are the moment of the loss.
CREATE TABLE analytics_losses (
  tenant_id text        NOT NULL,
  event_id  uuid        NOT NULL,
  farm_id   text        NOT NULL,
  barn_id   text        NOT NULL,
  device_id text        NOT NULL,
  first_at  timestamptz NOT NULL,
  last_at   timestamptz NOT NULL CHECK (last_at >= first_at),
  samples   bigint      NOT NULL,
  reason    text        NOT NULL,
  PRIMARY KEY (tenant_id, event_id)
);

CREATE INDEX analytics_losses_barn ON analytics_losses (tenant_id, farm_id, barn_id, last_at);
CREATE INDEX analytics_losses_last ON analytics_losses (last_at);


-- Days of barns that something has changed for. A mark is written with what changed, in one transaction, and is never updated:
-- so whoever merges events never waits for whoever computes. Computing a day removes the marks that it saw.
CREATE TABLE analytics_marks (
  id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text        NOT NULL,
  farm_id   text        NOT NULL,
  barn_id   text        NOT NULL,
  day       date        NOT NULL,
  marked_at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX analytics_marks_day ON analytics_marks (day, id);
CREATE INDEX analytics_marks_barn ON analytics_marks (tenant_id, farm_id, barn_id, day);


-- What a day came to. A row of scope 'barn' is about the whole barn (batch_id ''), one of scope 'batch' about one batch in it,
-- where '' are the animals whose sessions named no batch.
CREATE TABLE analytics_kpis (
  tenant_id    text        NOT NULL,
  farm_id      text        NOT NULL,
  barn_id      text        NOT NULL,
  day          date        NOT NULL,
  scope        text        NOT NULL CHECK (scope IN ('barn', 'batch')),
  batch_id     text        NOT NULL,
  weights      jsonb,
  growth       jsonb,
  vision       jsonb,
  comfort      jsonb,
  data         jsonb,
  computed_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, farm_id, barn_id, day, scope, batch_id)
);

CREATE INDEX analytics_kpis_tenant_day ON analytics_kpis (tenant_id, day, farm_id, barn_id, scope, batch_id);
CREATE INDEX analytics_kpis_computed ON analytics_kpis (computed_at);


-- The id follows from what an anomaly is about (place, day, kind, subject): computing the day again updates it. One that is no
-- longer there after late data is cleared and kept, for whoever has seen it.
CREATE TABLE analytics_anomalies (
  tenant_id      text        NOT NULL,
  id             uuid        NOT NULL,
  farm_id        text        NOT NULL,
  barn_id        text        NOT NULL,
  day            date        NOT NULL,
  kind           text        NOT NULL,
  severity       text        NOT NULL CHECK (severity IN ('warning', 'critical')),
  device_id      text,
  metric_type    text,
  sensor         text,
  batch_id       text,
  start_at       timestamptz NOT NULL,
  end_at         timestamptz,
  explanation    text        NOT NULL,
  evidence       jsonb       NOT NULL,
  evidence_count bigint      NOT NULL,
  detected_at    timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL,
  cleared_at     timestamptz,
  PRIMARY KEY (tenant_id, id)
);

CREATE INDEX analytics_anomalies_tenant_day ON analytics_anomalies (tenant_id, day DESC, id DESC);
CREATE INDEX analytics_anomalies_barn_day ON analytics_anomalies (tenant_id, farm_id, barn_id, day DESC, id DESC);
CREATE INDEX analytics_anomalies_updated ON analytics_anomalies (updated_at);
