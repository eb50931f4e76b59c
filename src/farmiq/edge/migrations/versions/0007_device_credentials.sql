-- mqtt_password_hash: as the broker's password file holds it. The broker's files can be written again from this table, so a
-- database that is restored on a new machine lets every device in without anybody visiting it.
-- credential_at: when the present password and token were made. Empty for a device that was registered and never given any.
ALTER TABLE devices
  ADD COLUMN mqtt_password_hash text,
  ADD COLUMN credential_at      timestamptz;
