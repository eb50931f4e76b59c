-- Which series a device or a tenant has: found by jumping from one series to the next, however many days each has. Only daily
-- rows are in it, and none of its columns ever changes, so an open bucket is updated as cheaply as before.
CREATE INDEX telemetry_agg_series ON telemetry_agg (tenant_id, device_id, metric_type, sensor, unit, bucket_start_at)
  WHERE "window" = '1d';


-- said_ts: the newest time that the device's own clock put on a message. It is compared with itself only, never with our clock.
-- gone_at, gone_ts: when the last goodbye or the broker's last will came, and what said_ts was then. The device is back as soon
-- as said_ts is larger: whatever is not, was said before.
-- status_at: when the figures in status_json came. A goodbye has no figures and leaves the last ones standing.
ALTER TABLE device_liveness
  ADD COLUMN said_ts   timestamptz,
  ADD COLUMN gone_at   timestamptz,
  ADD COLUMN gone_ts   timestamptz,
  ADD COLUMN status_at timestamptz;


-- Aggregates that have changed since the cloud was last told of them (TELEMETRY_SYNC_MODE=aggregated or both). Whoever adds to
-- a bucket holds its row here until the commit; whoever tells the cloud deletes the row, reads the bucket and appends the
-- event in one transaction. So every change is told, and none is told twice.
CREATE TABLE telemetry_agg_unsent (
  tenant_id       text        NOT NULL,
  device_id       text        NOT NULL,
  metric_type     text        NOT NULL,
  sensor          text        NOT NULL,
  unit            text        NOT NULL,
  "window"        text        NOT NULL,
  bucket_start_at timestamptz NOT NULL,
  due_at          timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, device_id, metric_type, "window", bucket_start_at, sensor, unit)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX telemetry_agg_unsent_due ON telemetry_agg_unsent (due_at);


-- With a fifth of each page free, most updates of open buckets still had to go to another page and into every index; with
-- three fifths free all of them stay on their page. Rows that are already there keep their place.
ALTER TABLE telemetry_agg SET (fillfactor = 40);
