-- A weigh station's name in topics and pictures, where it is not its device id. One name in a barn is one station.
ALTER TABLE devices ADD COLUMN station_id text CHECK (station_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$');
CREATE UNIQUE INDEX devices_station ON devices (tenant_id, farm_id, barn_id, coalesce(station_id, device_id))
  WHERE kind = 'weigh-station';

-- Whoever registers a device from now on appends this event with the row. Those that are here already get it once. Ids are UUID v7:
-- milliseconds first, then the version, then chance.
INSERT INTO sync_outbox (id, tenant_id, farm_id, barn_id, device_id, event_type, occurred_at, priority, payload_json,
                         payload_size_bytes)
SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
          || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid,
       tenant_id, farm_id, barn_id, device_id, 'edge.device.registered', created_at, 100,
       jsonb_build_object('kind', kind), octet_length(jsonb_build_object('kind', kind)::text)
  FROM devices WHERE revoked_at IS NULL ORDER BY device_id;
