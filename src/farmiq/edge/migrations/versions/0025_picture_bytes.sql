-- Bytes for which a device was given upload URLs, by day in UTC. They are counted when the URL is made (through the service: when
-- the bytes have come), whatever becomes of the picture.
CREATE TABLE media_bytes_of_day (
  tenant_id text   NOT NULL,
  day       date   NOT NULL,
  device_id text   NOT NULL,
  bytes     bigint NOT NULL,
  PRIMARY KEY (tenant_id, day, device_id)
) WITH (fillfactor = 50);
