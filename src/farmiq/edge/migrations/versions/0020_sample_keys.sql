-- The tenant is part of the key of measurements and streams: what one tenant stores can't stand in the way of another.
--
-- Ids of version 8 are those of samples from now on. Rows that have one by chance, or on purpose, get another id, so that none of them is
-- where a sample will go.
UPDATE telemetry_raw SET id = gen_random_uuid() WHERE substr(id::text, 15, 1) = '8';

-- The new indexes are made first and one by one: until the old key is dropped at the end, everybody can still read. An index that a
-- partition already has is taken over by the key of the whole table.
DO $$
DECLARE
  part record;
BEGIN
  FOR part IN SELECT inhrelid::regclass AS name, relname FROM pg_inherits JOIN pg_class ON oid = inhrelid
               WHERE inhparent = 'telemetry_raw'::regclass ORDER BY relname LOOP
    EXECUTE format('CREATE UNIQUE INDEX %I ON %s (tenant_id, id, occurred_at)', part.relname || '_newkey', part.name);
  END LOOP;
  ALTER TABLE telemetry_raw DROP CONSTRAINT telemetry_raw_pkey;
  FOR part IN SELECT inhrelid::regclass AS name, relname FROM pg_inherits JOIN pg_class ON oid = inhrelid
               WHERE inhparent = 'telemetry_raw'::regclass ORDER BY relname LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I PRIMARY KEY USING INDEX %I',
                   part.name, part.relname || '_pkey', part.relname || '_newkey');
  END LOOP;
  ALTER TABLE telemetry_raw ADD PRIMARY KEY (tenant_id, id, occurred_at);
END
$$;

ALTER TABLE streams DROP CONSTRAINT streams_pkey, ADD PRIMARY KEY (tenant_id, stream_id);
ALTER TABLE telemetry_agg DROP CONSTRAINT telemetry_agg_pkey, ADD PRIMARY KEY (tenant_id, id);
