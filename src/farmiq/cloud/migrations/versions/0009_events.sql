-- Weigh sessions are put together from events that come in any order and more than once. Of several that create a session the
-- first counts, by time and then by id; of several that end it the one of the highest revision, then the last. So that the next
-- event can be compared, what the one that counts said is kept: its id, its revision, and the first weight as each of them
-- had it (initial_weight_kg is the better known of the two).
-- first_event_at is the earliest time that any event of the session had: it is known from the first event on, whichever that is.
ALTER TABLE weight_sessions
  ADD COLUMN created_event_id  uuid,
  ADD COLUMN created_weight_kg double precision,
  ADD COLUMN ended_event_id    uuid,
  ADD COLUMN ended_revision    integer,
  ADD COLUMN ended_weight_kg   double precision,
  ADD COLUMN cancel_reason     text,
  ADD COLUMN first_event_at    timestamptz;
UPDATE weight_sessions SET first_event_at = coalesce(start_at, end_at, created_at);
ALTER TABLE weight_sessions ALTER COLUMN first_event_at SET NOT NULL;

-- A session is updated by each of its events: room on its page keeps that off the indexes. They are what a page of sessions
-- is read by, for a tenant or for what of it was asked for.
ALTER TABLE weight_sessions SET (fillfactor = 70);
CREATE INDEX weight_sessions_tenant_first ON weight_sessions (tenant_id, first_event_at DESC, id DESC);
CREATE INDEX weight_sessions_device_first ON weight_sessions (tenant_id, device_id, first_event_at DESC, id DESC);
CREATE INDEX weight_sessions_barn_first ON weight_sessions (tenant_id, barn_id, first_event_at DESC, id DESC);
CREATE INDEX weight_sessions_farm_first ON weight_sessions (tenant_id, farm_id, first_event_at DESC, id DESC);
CREATE INDEX weight_sessions_batch_first ON weight_sessions (tenant_id, batch_id, first_event_at DESC, id DESC);
CREATE INDEX weight_sessions_status_first ON weight_sessions (tenant_id, status, first_event_at DESC, id DESC);

-- For retention, which goes by when a session was first heard of.
CREATE INDEX weight_sessions_created ON weight_sessions (created_at);


-- What the scale said, once for each event. A weight may belong to no session.
CREATE TABLE recorded_weights (
  tenant_id   text             NOT NULL,
  event_id    uuid             NOT NULL,
  farm_id     text,
  barn_id     text,
  device_id   text,
  session_id  uuid,
  weight_kg   double precision NOT NULL,
  occurred_at timestamptz      NOT NULL,
  trace_id    text,
  received_at timestamptz      NOT NULL,
  PRIMARY KEY (tenant_id, event_id)
);

CREATE INDEX recorded_weights_session ON recorded_weights (tenant_id, session_id, occurred_at) WHERE session_id IS NOT NULL;
CREATE INDEX recorded_weights_device ON recorded_weights (tenant_id, device_id, occurred_at DESC);
CREATE INDEX recorded_weights_received ON recorded_weights (received_at);


-- Which pictures a station says it took. Whether they are in the cloud is for `media_objects` to say.
CREATE TABLE captured_images (
  tenant_id    text        NOT NULL,
  media_id     uuid        NOT NULL,
  event_id     uuid        NOT NULL,
  farm_id      text,
  barn_id      text,
  device_id    text,
  session_id   uuid,
  content_type text,
  size_bytes   bigint,
  sha256       text,
  occurred_at  timestamptz NOT NULL,
  trace_id     text,
  received_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, media_id)
);

CREATE INDEX captured_images_session ON captured_images (tenant_id, session_id, occurred_at) WHERE session_id IS NOT NULL;
CREATE INDEX captured_images_received ON captured_images (received_at);


-- A result may be told of by more than one event; the first of them counts.
ALTER TABLE inference_results ADD COLUMN event_id uuid;
UPDATE inference_results SET event_id = id;
ALTER TABLE inference_results ALTER COLUMN event_id SET NOT NULL;
CREATE INDEX inference_results_created ON inference_results (created_at);


-- What edges said about their own sending: a batch was sent, and later that it was acknowledged, in either order.
CREATE TABLE sync_batches (
  tenant_id         text        NOT NULL,
  batch_id          text        NOT NULL,
  edge_cluster_id   text,
  sent_event_count  integer,
  sent_at           timestamptz,
  sent_event_id     uuid,
  acked_event_count integer,
  acked_at          timestamptz,
  acked_event_id    uuid,
  received_at       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, batch_id)
);

CREATE INDEX sync_batches_received ON sync_batches (received_at);


-- Every event of a type that has no table of its own, as it came. An event is known by tenant and id; its time stands in the key
-- because a partitioned table's key must hold what it is partitioned by, and it is the same whenever the event comes again.
CREATE TABLE device_events (
  tenant_id       text        NOT NULL,
  event_id        uuid        NOT NULL,
  event_type      text        NOT NULL,
  farm_id         text,
  barn_id         text,
  device_id       text,
  session_id      uuid,
  occurred_at     timestamptz NOT NULL,
  trace_id        text,
  edge_cluster_id text,
  payload         jsonb       NOT NULL,
  received_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, event_id, occurred_at)
) PARTITION BY RANGE (occurred_at);

CREATE INDEX device_events_tenant_occurred ON device_events (tenant_id, occurred_at DESC, event_id DESC);
CREATE INDEX device_events_device_occurred ON device_events (tenant_id, device_id, occurred_at DESC, event_id DESC);
CREATE INDEX device_events_type_occurred ON device_events (tenant_id, event_type, occurred_at DESC, event_id DESC);

CREATE TABLE device_events_default PARTITION OF device_events DEFAULT;
-- Events without a believable time are all in the default partition. What they are too old by is when they came in.
CREATE INDEX device_events_default_received ON device_events_default (received_at);

SELECT ensure_month_partition('device_events', ((now() AT TIME ZONE 'UTC') + make_interval(months => ahead))::date)
  FROM generate_series(-1, 2) AS ahead;


-- What an edge sent for a bucket is kept beside what its samples gave: wider windows are made anew from narrower ones, and must
-- not lose it. NULL: nothing was sent for this very bucket, and what it shows was added up from narrower ones.
ALTER TABLE received_buckets
  ADD COLUMN sent_count     bigint CHECK (sent_count > 0),
  ADD COLUMN sent_sum_value double precision,
  ADD COLUMN sent_min_value double precision,
  ADD COLUMN sent_max_value double precision;
UPDATE received_buckets AS known
   SET sent_count = shown.count, sent_sum_value = shown.sum_value, sent_min_value = shown.min_value, sent_max_value = shown.max_value
  FROM telemetry_agg AS shown
 WHERE (shown.tenant_id, shown.device_id, shown.metric_type, shown."window", shown.bucket_start_at, shown.sensor, shown.unit)
     = (known.tenant_id, known.device_id, known.metric_type, known."window", known.bucket_start_at, known.sensor, known.unit);


-- For the totals: how much of what days show was never here as samples.
CREATE INDEX received_buckets_days ON received_buckets (tenant_id, device_id) WHERE "window" = '1d';


-- Aggregates that have changed since the bus was last told of them. Whoever adds to a bucket holds its row here until the commit,
-- and counts `changes` up once the row is due, for then it may be in somebody's hands. Whoever tells the bus puts the rows off for a
-- while, reads the buckets, publishes, and deletes the rows that have not changed since: killed anywhere, it is done again.
CREATE TABLE telemetry_agg_unsent (
  tenant_id       text        NOT NULL,
  device_id       text        NOT NULL,
  metric_type     text        NOT NULL,
  sensor          text        NOT NULL,
  unit            text        NOT NULL,
  "window"        text        NOT NULL,
  bucket_start_at timestamptz NOT NULL,
  due_at          timestamptz NOT NULL,
  changes         bigint      NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, device_id, metric_type, "window", bucket_start_at, sensor, unit)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX telemetry_agg_unsent_due ON telemetry_agg_unsent (due_at);
