-- When a service's queues were last seen empty: what is in them now was accepted later. An audit lets the bus explain nothing older.
CREATE TABLE empty_bus_queues (
  service  text        PRIMARY KEY,
  empty_at timestamptz NOT NULL
);

-- Single readings are compared between the tiers by their days. The index has no entry for samples of streams.
CREATE INDEX telemetry_raw_single ON telemetry_raw (tenant_id, occurred_at) WHERE stream_id IS NULL;

-- Whoever compares aggregates is shown which of them have still to be told of.
CREATE POLICY read ON telemetry_agg_unsent FOR SELECT USING (
  tenant_id = (SELECT current_setting('farmiq.tenants', true))
  OR (SELECT current_setting('farmiq.tenants', true) = '*')
  OR tenant_id = ANY ((SELECT string_to_array(current_setting('farmiq.tenants', true), ','))::text[]));
