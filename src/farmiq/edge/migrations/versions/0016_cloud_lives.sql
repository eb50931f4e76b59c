-- Which life of the cloud's database this tenant's events were last acknowledged by, and, while the cloud misses some of them
-- because a backup was restored there, how far sending them again has come.
ALTER TABLE sync_state
  ADD COLUMN cloud_epoch    uuid,
  ADD COLUMN cloud_began_at timestamptz,
  ADD COLUMN resend_since   timestamptz,
  ADD COLUMN resend_until   timestamptz,
  ADD COLUMN resend_after   uuid;
