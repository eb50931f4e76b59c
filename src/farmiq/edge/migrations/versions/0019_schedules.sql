-- A device that a person sent one value for is not missed when no second one comes. `regular_since` is when the device began to
-- send without a long pause, and `scheduled_at` when it had done so for long enough to be missed, or had sent its first
-- `device.status`. Both are null for a device that has not.
ALTER TABLE device_liveness ADD COLUMN regular_since timestamptz, ADD COLUMN scheduled_at timestamptz;

-- Devices of earlier versions: those that send their status, and those with values in ten minutes or more.
UPDATE device_liveness AS device SET scheduled_at = coalesce(device.status_at, device.reported_at, device.last_rx_at, now())
WHERE device.reported_state IS NOT NULL OR device.status_json IS NOT NULL OR 10 <= (
  SELECT count(*) FROM (
    SELECT FROM telemetry_agg AS minute
    WHERE minute.tenant_id = device.tenant_id AND minute.device_id = device.device_id AND minute."window" = '1m'
    LIMIT 10) AS minutes);
