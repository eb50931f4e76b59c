-- Monthly partitions.
--
-- The bound of a month is written in UTC whatever the session's time zone is. A key of type uuid is a UUID v7, whose first
-- 48 bits are milliseconds since the epoch, so a month is a range of ids as well.
CREATE FUNCTION month_bound(key_type regtype, month date) RETURNS text
LANGUAGE sql STABLE
RETURN CASE key_type
  WHEN 'uuid'::regtype THEN
    lpad(to_hex((extract(epoch FROM date_trunc('month', month::timestamp)) * 1000)::bigint), 12, '0') || repeat('0', 20)
  ELSE to_char(date_trunc('month', month::timestamp), 'YYYY-MM-DD') || ' 00:00:00+00'
END;

CREATE FUNCTION is_partition_of(parent regclass, candidate regclass) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM pg_inherits WHERE inhrelid = candidate AND inhparent = parent AND NOT inhdetachpending);

-- Makes the partition of one month and returns it. May be called at any time by any number of sessions; when the partition is
-- there it only looks.
--
-- Rows of that month that were stored before (a device whose clock ran ahead, data older than the oldest partition) are in
-- the default partition, and PostgreSQL refuses a new partition while they are there. So they move in the same transaction.
--
-- Writers are held off meanwhile: one that had already chosen the default partition for its row would otherwise be told that the
-- row violates the partition's constraint. They in turn must not stand behind a long query that we stand behind. So the wait
-- is short, and NULL means "not now": rows of that month go to the default partition as before, and a later call moves them.
CREATE FUNCTION ensure_month_partition(parent regclass, month date) RETURNS regclass
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
  schema_name name;
  parent_name name;
  key_name name;
  key_type regtype;
  default_partition regclass;
  columns text;
  partition text;
  lower_bound text;
  upper_bound text;
BEGIN
  SELECT n.nspname, c.relname, a.attname, a.atttypid, NULLIF(p.partdefid, 0)
    INTO schema_name, parent_name, key_name, key_type, default_partition
    FROM pg_partitioned_table p
    JOIN pg_class c ON c.oid = p.partrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
   WHERE p.partrelid = parent AND p.partstrat = 'r' AND p.partnatts = 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION '% is not partitioned by range on one column', parent USING ERRCODE = 'wrong_object_type';
  END IF;

  partition := format('%I.%I', schema_name, parent_name || to_char(month, '_YYYY_MM'));
  IF is_partition_of(parent, to_regclass(partition)) THEN
    RETURN to_regclass(partition);
  END IF;

  -- The lock excludes itself as well, so of sessions that race here the first makes the partition and the others find it. An
  -- advisory lock would not do: waiting for a table also makes the session forget what it remembers of the catalogue.
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', parent);
  IF is_partition_of(parent, to_regclass(partition)) THEN
    RETURN to_regclass(partition);
  END IF;
  IF to_regclass(partition) IS NOT NULL THEN
    RAISE EXCEPTION '% exists and is not attached to %', partition, parent USING
      ERRCODE = 'duplicate_table', HINT = 'A retention job detached it and did not drop it: drop it, or attach it again.';
  END IF;

  lower_bound := month_bound(key_type, month);
  upper_bound := month_bound(key_type, (date_trunc('month', month::timestamp) + interval '1 month')::date);
  -- Rows only ever come in here, and the visibility map must follow them or index-only scans go stale.
  EXECUTE format(
    'CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING STORAGE)'
    ' WITH (autovacuum_vacuum_insert_scale_factor = 0.02)', partition, parent);
  IF default_partition IS NOT NULL THEN
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns
      FROM pg_attribute WHERE attrelid = parent AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', default_partition);
    EXECUTE format(
      'WITH moved AS (DELETE FROM %1$s WHERE %2$I >= %3$L AND %2$I < %4$L RETURNING %5$s)'
      ' INSERT INTO %6$s (%5$s) SELECT %5$s FROM moved',
      default_partition, key_name, lower_bound, upper_bound, columns, partition);
  END IF;
  EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
                 parent, partition, lower_bound, upper_bound);
  RETURN to_regclass(partition);
EXCEPTION
  WHEN lock_not_available OR deadlock_detected THEN
    RETURN NULL;
END
$$;


-- One row for each sample. The key holds occurred_at because a partitioned table's key must hold what it is partitioned by.
-- Samples of a node batch have a stream and a sequence; single readings have neither.
CREATE TABLE telemetry_raw (
  id           uuid             NOT NULL,
  tenant_id    text             NOT NULL,
  farm_id      text             NOT NULL,
  barn_id      text             NOT NULL,
  device_id    text             NOT NULL,
  occurred_at  timestamptz      NOT NULL,
  metric_type  text             NOT NULL,
  metric_value double precision NOT NULL,
  unit         text,
  ingested_at  timestamptz      NOT NULL DEFAULT now(),
  stream_id    uuid,
  seq          bigint,
  sensor       text,
  time_quality smallint,
  PRIMARY KEY (id, occurred_at)
) PARTITION BY RANGE (occurred_at);

CREATE INDEX telemetry_raw_tenant_device_occurred ON telemetry_raw (tenant_id, device_id, occurred_at DESC);
CREATE INDEX telemetry_raw_tenant_occurred ON telemetry_raw (tenant_id, occurred_at DESC);

-- A node without a clock says 1970, another one says 2099, and a month's partition may be missing: the sample is kept all the same.
CREATE TABLE telemetry_raw_default PARTITION OF telemetry_raw DEFAULT;

SELECT ensure_month_partition('telemetry_raw', ((now() AT TIME ZONE 'UTC') + make_interval(months => ahead))::date)
  FROM generate_series(-1, 2) AS ahead;


-- Sum and count are what is kept; the average follows from them, so late and replayed samples are added exactly.
-- The unit is in the key because adding degrees Celsius to degrees Fahrenheit gives a number that means nothing.
-- Key columns stand in the order in which a chart of one metric reads them. A device that names no sensor or no unit has ''
-- there. Farm and barn are where the device stood when the bucket was opened.
CREATE TABLE telemetry_agg (
  id              uuid             NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
  tenant_id       text             NOT NULL,
  farm_id         text,
  barn_id         text,
  device_id       text             NOT NULL,
  metric_type     text             NOT NULL,
  sensor          text             NOT NULL DEFAULT '',
  unit            text             NOT NULL DEFAULT '',
  "window"        text             NOT NULL CHECK ("window" IN ('1m', '1h', '1d')),
  bucket_start_at timestamptz      NOT NULL,
  bucket_end_at   timestamptz      NOT NULL CHECK (bucket_end_at > bucket_start_at),
  sum_value       double precision NOT NULL,
  count           bigint           NOT NULL CHECK (count > 0),
  avg_value       double precision GENERATED ALWAYS AS (sum_value / count) STORED,
  min_value       double precision NOT NULL,
  max_value       double precision NOT NULL,
  updated_at      timestamptz      NOT NULL DEFAULT now(),
  CONSTRAINT telemetry_agg_bucket
    UNIQUE (tenant_id, device_id, metric_type, "window", bucket_start_at, sensor, unit)
) WITH (fillfactor = 80);  -- an open bucket is updated by every batch: room on its page keeps that off the indexes

CREATE INDEX telemetry_agg_tenant_device_window ON telemetry_agg (tenant_id, device_id, "window", bucket_start_at DESC);


-- Coverage: which sequences of a stream are stored, and which are declared lost. A writer locks the row, stores only what
-- neither range holds, and adds the range in the same transaction. What is in neither range is a gap.
CREATE TABLE streams (
  stream_id     uuid           PRIMARY KEY,
  tenant_id     text           NOT NULL,
  farm_id       text           NOT NULL,
  barn_id       text           NOT NULL,
  device_id     text           NOT NULL,
  boot_id       uuid,
  channels      jsonb          NOT NULL DEFAULT '[]',
  received      int8multirange NOT NULL DEFAULT '{}',
  lost          int8multirange NOT NULL DEFAULT '{}',
  first_seen_at timestamptz    NOT NULL DEFAULT now(),
  last_seen_at  timestamptz    NOT NULL DEFAULT now()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE INDEX streams_tenant_device ON streams (tenant_id, device_id);


-- The loss ledger: what was given up, where, and why. Rows are never changed and never deleted by a cleanup job.
CREATE TABLE stream_losses (
  tenant_id   text        NOT NULL,
  event_id    uuid        NOT NULL,
  farm_id     text        NOT NULL,
  barn_id     text        NOT NULL,
  device_id   text        NOT NULL,
  stream_id   uuid        NOT NULL,
  first_seq   bigint      NOT NULL,
  last_seq    bigint      NOT NULL CHECK (last_seq >= first_seq),
  count       bigint      NOT NULL CHECK (count >= 0),
  first_ts    timestamptz,
  last_ts     timestamptz,
  reason      text        NOT NULL,
  dropped_at  timestamptz NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, event_id)
);

CREATE INDEX stream_losses_tenant_device_dropped ON stream_losses (tenant_id, device_id, dropped_at DESC);
CREATE INDEX stream_losses_stream ON stream_losses (stream_id, first_seq);
