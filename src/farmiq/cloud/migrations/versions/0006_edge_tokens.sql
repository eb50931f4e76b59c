-- An edge's tokens: one, or two while it changes from the old to the new. For which tenants they speak is in `edges`, so that a
-- change holds for all of them at once. A token names its row with a part that is no secret; of the whole only the SHA-256 is here.
CREATE TABLE edge_tokens (
  token_id        text        PRIMARY KEY CHECK (token_id ~ '^[0-9a-f]{12,16}$'),
  edge_cluster_id text        NOT NULL REFERENCES edges,
  token_hash      bytea       NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
  created_at      timestamptz NOT NULL DEFAULT now(),
  expires_at      timestamptz,
  revoked_at      timestamptz,
  last_used_at    timestamptz
);

CREATE INDEX edge_tokens_edge ON edge_tokens (edge_cluster_id, created_at);

-- Tokens made before had no such part: there it is the beginning of their hash.
INSERT INTO edge_tokens (token_id, edge_cluster_id, token_hash, created_at, revoked_at, last_used_at)
SELECT left(encode(token_hash, 'hex'), 16), edge_cluster_id, token_hash, created_at, revoked_at, last_seen_at FROM edges;

-- A replica of the version before still looks here until it is replaced. Whatever ends a token takes its hash from here too.
ALTER TABLE edges ALTER COLUMN token_hash DROP NOT NULL;


-- An edge may send aggregates instead of samples, or both. `telemetry_agg` shows, for each bucket, whichever counted more. For
-- the buckets named here that is what an edge sent; what the samples that came here gave is kept beside it, and is nothing
-- when none came.
CREATE TABLE received_buckets (
  tenant_id       text             NOT NULL,
  device_id       text             NOT NULL,
  metric_type     text             NOT NULL,
  "window"        text             NOT NULL,
  bucket_start_at timestamptz      NOT NULL,
  sensor          text             NOT NULL,
  unit            text             NOT NULL,
  raw_count       bigint           NOT NULL CHECK (raw_count >= 0),
  raw_sum_value   double precision NOT NULL,
  raw_min_value   double precision NOT NULL,
  raw_max_value   double precision NOT NULL,
  PRIMARY KEY (tenant_id, device_id, metric_type, "window", bucket_start_at, sensor, unit)
);
