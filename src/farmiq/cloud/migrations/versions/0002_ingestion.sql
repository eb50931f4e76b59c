-- The edges that may deliver, and for which tenants. Only the SHA-256 of a token is here.
CREATE TABLE edges (
  edge_cluster_id text        PRIMARY KEY CHECK (edge_cluster_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  token_hash      bytea       NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
  tenant_ids      text[]      NOT NULL CHECK (cardinality(tenant_ids) > 0),
  created_at      timestamptz NOT NULL DEFAULT now(),
  revoked_at      timestamptz,
  last_seen_at    timestamptz
);


-- Every event that was published, for as long as an edge may send it again.
--
-- Partitioned by the event's own id. An event has the same id whenever it comes, so it always falls into the same partition:
-- one primary key holds over all of them, and a lookup touches one. Partitions by the time of arrival could do neither,
-- and an event sent again after midnight would be found only by searching every day. Our ids are UUID v7, so a month of
-- time is a range of ids and a month's partition can be dropped whole.
--
-- An event may arrive long after its id was made: a partition may be dropped when its newest first_seen_at is past retention,
-- not when its month is. Ids of other kinds, and of months whose partition is missing or gone, are in the default partition,
-- with the same guarantee; there, rows past retention are deleted by first_seen_at.
CREATE TABLE ingest_dedupe (
  tenant_id     text        NOT NULL,
  event_id      uuid        NOT NULL,
  first_seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, event_id)
) PARTITION BY RANGE (event_id);

CREATE INDEX ingest_dedupe_first_seen ON ingest_dedupe (first_seen_at);

CREATE TABLE ingest_dedupe_default PARTITION OF ingest_dedupe DEFAULT;

SELECT ensure_month_partition('ingest_dedupe', ((now() AT TIME ZONE 'UTC') + make_interval(months => ahead))::date)
  FROM generate_series(-1, 2) AS ahead;
