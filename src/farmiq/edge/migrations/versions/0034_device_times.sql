-- NULL: the device's clock was right, and its time is `occurred_at`. A column without a default rewrites no partition.
ALTER TABLE telemetry_raw ADD COLUMN device_occurred_at timestamptz;
