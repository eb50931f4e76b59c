-- declare_at: a picture that is missing or refused is declared lost at this time, unless its station sends it again before. NULL: it
-- is neither, or its loss is decided. declared_lost_at: since when it is in the ledger. is_adopted: an object without a row was given
-- this one; its time and session are guesses until somebody announces it.
ALTER TABLE media_objects
  ADD COLUMN is_adopted       boolean NOT NULL DEFAULT false,
  ADD COLUMN declare_at       timestamptz,
  ADD COLUMN declared_lost_at timestamptz;

CREATE INDEX media_objects_to_declare ON media_objects (declare_at) WHERE declare_at IS NOT NULL;

-- Nobody has declared those of earlier releases. Their stations may still have them.
UPDATE media_objects SET declare_at = now() + interval '72 hours' WHERE state IN ('refused', 'missing');

-- The ledgers are the same at both tiers. NULL: the device declared the loss itself.
ALTER TABLE stream_losses ADD COLUMN declared_by text, ADD COLUMN note text;
ALTER TABLE station_losses ADD COLUMN declared_by text, ADD COLUMN note text;
