-- An id alone is nobody's: what is known under one belongs to the tenant that it came from. Each new index is made beside the old
-- key, while everybody can still read, and takes its place at the end.

-- The id stands first: an operator's statement, and that of the documents, names a row by its id alone.
CREATE UNIQUE INDEX sync_outbox_newkey ON sync_outbox (id, tenant_id) WITH (fillfactor = 50);
ALTER TABLE sync_outbox
  DROP CONSTRAINT sync_outbox_pkey,
  ADD CONSTRAINT sync_outbox_pkey PRIMARY KEY USING INDEX sync_outbox_newkey;

CREATE OR REPLACE FUNCTION touch_sync_outbox() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE sync_outbox SET updated_at = now() WHERE id = NEW.id AND tenant_id = NEW.tenant_id;
  RETURN NULL;
END
$$;


-- Weigh stations choose the ids of their sessions. What belongs to a session names its tenant too.
ALTER TABLE session_weights    ADD COLUMN tenant_id text;
ALTER TABLE session_pictures   ADD COLUMN tenant_id text;
ALTER TABLE session_operations ADD COLUMN tenant_id text;
UPDATE session_weights    AS own SET tenant_id = s.tenant_id FROM weight_sessions AS s WHERE s.id = own.session_id;
UPDATE session_pictures   AS own SET tenant_id = s.tenant_id FROM weight_sessions AS s WHERE s.id = own.session_id;
UPDATE session_operations AS own SET tenant_id = s.tenant_id FROM weight_sessions AS s WHERE s.id = own.session_id;

ALTER TABLE session_weights    DROP CONSTRAINT session_weights_session_id_fkey,    ALTER COLUMN tenant_id SET NOT NULL;
ALTER TABLE session_pictures   DROP CONSTRAINT session_pictures_session_id_fkey,   ALTER COLUMN tenant_id SET NOT NULL;
ALTER TABLE session_operations DROP CONSTRAINT session_operations_session_id_fkey, ALTER COLUMN tenant_id SET NOT NULL;

CREATE UNIQUE INDEX weight_sessions_newkey ON weight_sessions (tenant_id, id);
ALTER TABLE weight_sessions
  DROP CONSTRAINT weight_sessions_pkey,
  ADD CONSTRAINT weight_sessions_pkey PRIMARY KEY USING INDEX weight_sessions_newkey;

ALTER TABLE session_weights
  DROP CONSTRAINT session_weights_pkey,
  ADD PRIMARY KEY (tenant_id, session_id, event_id),
  ADD FOREIGN KEY (tenant_id, session_id) REFERENCES weight_sessions ON DELETE CASCADE;
ALTER TABLE session_pictures
  DROP CONSTRAINT session_pictures_pkey,
  ADD PRIMARY KEY (tenant_id, session_id, media_id),
  ADD FOREIGN KEY (tenant_id, session_id) REFERENCES weight_sessions ON DELETE CASCADE;
ALTER TABLE session_operations
  DROP CONSTRAINT session_operations_pkey,
  ADD PRIMARY KEY (tenant_id, id),
  ADD FOREIGN KEY (tenant_id, session_id) REFERENCES weight_sessions ON DELETE CASCADE;
ALTER TABLE session_results
  DROP CONSTRAINT session_results_pkey,
  ADD PRIMARY KEY (tenant_id, id);

DROP INDEX session_weights_in_order, session_pictures_media, session_results_session, session_results_media,
           session_operations_session;
CREATE INDEX session_weights_in_order ON session_weights (tenant_id, session_id, occurred_at, event_id);
CREATE INDEX session_pictures_media ON session_pictures (tenant_id, media_id);
CREATE INDEX session_results_session ON session_results (tenant_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX session_results_media ON session_results (tenant_id, media_id) WHERE media_id IS NOT NULL;
CREATE INDEX session_operations_session ON session_operations (tenant_id, session_id, done_at);


-- Names of pictures, of looks at them and of results are ours, over their tenant or by chance: no two tenants have the same one.
-- The id stands first here too, because an upload URL names a picture by its id and a token.
CREATE UNIQUE INDEX media_objects_newkey ON media_objects (id, tenant_id);
ALTER TABLE media_objects
  DROP CONSTRAINT media_objects_pkey,
  ADD CONSTRAINT media_objects_pkey PRIMARY KEY USING INDEX media_objects_newkey;
ALTER TABLE media_transfers
  DROP CONSTRAINT media_transfers_pkey,
  ADD PRIMARY KEY (media_id, tenant_id);
ALTER TABLE inference_jobs
  DROP CONSTRAINT inference_jobs_pkey,
  DROP CONSTRAINT inference_jobs_media_id_key,
  ADD PRIMARY KEY (id, tenant_id),
  ADD UNIQUE (media_id, tenant_id);
ALTER TABLE inference_results
  DROP CONSTRAINT inference_results_pkey,
  ADD PRIMARY KEY (id, tenant_id);


-- Ids that the edge gives to its own events are keyed by `id_secret`: nobody else can name one before it is there. Restoring a
-- backup begins a new epoch and keeps the secret. What was measured before `ids_keyed_since` may have a name of an earlier release
-- and keeps it; it is null where no earlier release has named anything.
ALTER TABLE edge_identity
  ADD COLUMN id_secret       bytea NOT NULL
             DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) CHECK (octet_length(id_secret) = 32),
  ADD COLUMN ids_keyed_since timestamptz;

UPDATE edge_identity SET ids_keyed_since = now()
 WHERE EXISTS (SELECT FROM sync_outbox) OR EXISTS (SELECT FROM streams) OR EXISTS (SELECT FROM telemetry_agg)
    OR EXISTS (SELECT FROM weight_sessions) OR EXISTS (SELECT FROM media_objects);
