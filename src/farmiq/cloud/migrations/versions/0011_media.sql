-- Pictures in the cloud's own object store. `bucket` and `object_key` say where a picture lies here, from the moment at which an
-- edge asked to send it; what an edge says about its own store is kept beside it. Rows that say where the edge's store has a
-- picture, as they were before, say it in the new columns.
ALTER TABLE media_objects DROP CONSTRAINT media_objects_place;

ALTER TABLE media_objects
  ADD COLUMN source_bucket      text,
  ADD COLUMN source_object_key  text,
  ADD COLUMN announced_at       timestamptz,
  ADD COLUMN announced_event_id uuid,
  ADD COLUMN missing_since      timestamptz,
  ADD COLUMN missing_reason     text,
  ADD COLUMN thumbnail_refused  text;

UPDATE media_objects SET source_bucket = bucket, source_object_key = object_key, bucket = NULL, object_key = NULL
 WHERE state <> 'stored';
UPDATE media_objects SET captured_at = created_at WHERE captured_at IS NULL;

ALTER TABLE media_objects
  ALTER COLUMN captured_at SET NOT NULL,
  ADD CONSTRAINT media_objects_place CHECK ((bucket IS NULL) = (object_key IS NULL)),
  ADD CONSTRAINT media_objects_announced CHECK ((announced_at IS NULL) = (announced_event_id IS NULL)),
  -- Nothing is called stored whose bytes could not be compared.
  ADD CONSTRAINT media_objects_stored CHECK (
    state <> 'stored' OR num_nulls(object_key, size_bytes, sha256, stored_at, verified_at) = 0);

-- In the order in which an object store lists: the integrity check walks both side by side.
CREATE UNIQUE INDEX media_objects_place_order ON media_objects (bucket, object_key COLLATE "C") WHERE object_key IS NOT NULL;
CREATE INDEX media_objects_tenant_captured ON media_objects (tenant_id, captured_at DESC, id DESC);
CREATE INDEX media_objects_retention ON media_objects (stored_at) WHERE stored_at IS NOT NULL;
-- Announced and not here, or here once and gone: few, and asked for every minute.
CREATE INDEX media_objects_waiting ON media_objects (tenant_id, id) WHERE state IN ('announced', 'missing');
