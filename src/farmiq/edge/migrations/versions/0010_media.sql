-- From the signed URL to the verified picture. Until a row says stored, `size_bytes` and `sha256` are what the device said.
-- announced_at: somebody said that the bytes are there (the device over MQTT or HTTP, or we ourselves when they came through us).
-- next_check_at: when to look into the object store. Whoever looks moves it on first, so that others leave the row alone.
-- upload_token_hash: of the token in an upload URL that leads to the service itself instead of the object store.
-- kept_from: where retention counts from. A clock that was never set says 1970: such a picture is as old as its row.
ALTER TABLE media_objects
  ADD COLUMN announced_at      timestamptz,
  ADD COLUMN next_check_at     timestamptz,
  ADD COLUMN checks            integer     NOT NULL DEFAULT 0 CHECK (checks >= 0),
  ADD COLUMN upload_token_hash bytea       CHECK (octet_length(upload_token_hash) = 32),
  ADD COLUMN refused_at        timestamptz,
  ADD COLUMN refused_reason    text,
  ADD COLUMN refused_detail    text,
  ADD COLUMN object_removed_at timestamptz,
  ADD COLUMN width_px          integer     CHECK (width_px > 0),
  ADD COLUMN height_px         integer     CHECK (height_px > 0),
  ADD COLUMN kept_from         timestamptz NOT NULL GENERATED ALWAYS AS (
    CASE WHEN captured_at < TIMESTAMPTZ '2015-01-01 00:00:00+00' THEN created_at ELSE least(captured_at, created_at) END
  ) STORED,
  ADD CONSTRAINT media_objects_refused CHECK ((state = 'refused') = (refused_reason IS NOT NULL));

DROP INDEX media_objects_awaited;
CREATE INDEX media_objects_to_check ON media_objects (next_check_at) WHERE state = 'presigned';
CREATE INDEX media_objects_tenant_captured ON media_objects (tenant_id, captured_at DESC, id DESC);
CREATE INDEX media_objects_kept_from ON media_objects (kept_from) WHERE state <> 'presigned';
CREATE INDEX media_objects_refused_since ON media_objects (refused_at) WHERE state = 'refused';
-- In the order in which the integrity check walks through the object store.
CREATE INDEX media_objects_walk ON media_objects (bucket, object_key COLLATE "C");
CREATE INDEX media_objects_missing ON media_objects (tenant_id, captured_at) WHERE state = 'missing';


-- How fast each device asks for upload URLs, the same for all replicas: up to when its allowance is used up.
CREATE TABLE media_presign_pace (
  device_id text        PRIMARY KEY,
  used_to   timestamptz NOT NULL
) WITH (fillfactor = 50);
