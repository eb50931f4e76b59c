-- The tenant is part of every key. An object's key begins with its tenant: this changes the shape of the index and not what it allows.
CREATE UNIQUE INDEX media_objects_place_newkey ON media_objects (bucket, object_key COLLATE "C", tenant_id)
  WHERE object_key IS NOT NULL;
DROP INDEX media_objects_place_order;
ALTER INDEX media_objects_place_newkey RENAME TO media_objects_place_order;


-- Ids that the cloud gives to its own events are keyed by `id_secret`: nobody else can name one before it is there. Restoring a
-- backup begins a new epoch and keeps the secret. What is about a time before `ids_keyed_since` may have a name of an earlier
-- release and keeps it; it is null where no earlier release has named anything.
ALTER TABLE cloud_identity
  ADD COLUMN id_secret       bytea NOT NULL
             DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) CHECK (octet_length(id_secret) = 32),
  ADD COLUMN ids_keyed_since timestamptz;

UPDATE cloud_identity SET ids_keyed_since = now()
 WHERE EXISTS (SELECT FROM telemetry_agg) OR EXISTS (SELECT FROM analytics_hours) OR EXISTS (SELECT FROM analytics_anomalies)
    OR EXISTS (SELECT FROM ingest_dedupe);
