-- One row for each way to the gateway, overwritten by each test message: what proves that a commit works is a commit.
CREATE TABLE canary_receipts (
  way         text        PRIMARY KEY,
  received_at timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE canary_receipts IS 'When the gateway last stored a test message of its own; no data of any device.';

-- What a device tried at the broker and was refused, and connections that another one under the same login ended.
-- Who is no device of this edge has no tenant (''): all of them share one row of a kind, so nobody can fill the table.
CREATE TABLE broker_refusals (
  tenant_id text        NOT NULL,
  device_id text        NOT NULL,
  kind      text        NOT NULL
            CHECK (kind IN ('publish_denied', 'subscribe_denied', 'login_refused', 'connection_replaced', 'retained_removed')),
  count     bigint      NOT NULL CHECK (count > 0),
  topic     text        NOT NULL,
  first_at  timestamptz NOT NULL,
  last_at   timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, device_id, kind)
);
COMMENT ON COLUMN broker_refusals.topic IS 'The last topic or filter, cut to 200 characters; empty where there is none.';
