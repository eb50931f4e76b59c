-- Who may speak. The device id alone is the key because the topic of its acknowledgement, iot/{device_id}/ack, names nothing
-- else; and the first words of the other topics cannot be device ids.
CREATE TABLE devices (
  device_id       text        PRIMARY KEY
                  CHECK (device_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$')
                  CHECK (device_id NOT IN ('telemetry', 'event', 'weighvision', 'status')),
  tenant_id       text        NOT NULL CHECK (tenant_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  farm_id         text        NOT NULL CHECK (farm_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  barn_id         text        NOT NULL CHECK (barn_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  kind            text        NOT NULL DEFAULT 'node',
  http_token_hash bytea       UNIQUE CHECK (octet_length(http_token_hash) = 32),
  created_at      timestamptz NOT NULL DEFAULT now(),
  revoked_at      timestamptz
);

CREATE INDEX devices_tenant ON devices (tenant_id, device_id);


-- First sight of each message, for the time in which it may be delivered again. Who sent it and what it held are kept so that
-- an id used twice for different things can be told from a delivery repeated.
CREATE TABLE ingress_dedupe (
  tenant_id     text        NOT NULL,
  event_id      uuid        NOT NULL,
  first_seen_at timestamptz NOT NULL DEFAULT now(),
  device_id     text,
  content_hash  text,
  PRIMARY KEY (tenant_id, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);

CREATE INDEX ingress_dedupe_first_seen ON ingress_dedupe (first_seen_at);


-- Messages that can never be accepted, with the reason. Cut to what a person needs to recognise them; bounded by age and by rows.
CREATE TABLE ingress_rejected (
  id                 uuid        NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
  received_at        timestamptz NOT NULL DEFAULT now(),
  topic              text        NOT NULL,
  reason             text        NOT NULL,
  detail             text        NOT NULL DEFAULT '',
  payload            bytea       NOT NULL CHECK (octet_length(payload) <= 65536),
  payload_size_bytes bigint      NOT NULL,
  tenant_id          text,
  device_id          text,
  event_id           uuid,
  trace_id           text
);

CREATE INDEX ingress_rejected_received ON ingress_rejected (received_at DESC, id);
CREATE INDEX ingress_rejected_tenant_received ON ingress_rejected (tenant_id, received_at DESC);


-- Which life of this database is speaking. Every acknowledgement carries the epoch; restoring a backup changes it, and
-- devices that see a new one believe the marks of the restored database and send again what they still have.
CREATE TABLE edge_identity (
  only_row   boolean     NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
  epoch      uuid        NOT NULL DEFAULT gen_random_uuid(),
  changed_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO edge_identity DEFAULT VALUES;
