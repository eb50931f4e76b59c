-- Pictures on their way to the cloud: one row for each, written in the transaction that stores its `media.stored`.
CREATE TABLE media_transfers (
  media_id           uuid        PRIMARY KEY,
  tenant_id          text        NOT NULL,
  farm_id            text        NOT NULL,
  barn_id            text        NOT NULL,
  device_id          text        NOT NULL,
  session_id         uuid,
  bucket             text        NOT NULL,
  object_key         text        NOT NULL,
  mime_type          text        NOT NULL,
  size_bytes         bigint      NOT NULL CHECK (size_bytes > 0),
  sha256             text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  captured_at        timestamptz NOT NULL,
  trace_id           text,
  state              text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sending', 'sent', 'failed')),
  attempt_count      integer     NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
  -- The order of sending too: what was put off stands behind what has not been tried.
  next_attempt_at    timestamptz NOT NULL DEFAULT now(),
  claimed_by         text,
  -- Fencing, as in sync_outbox: goes up with every claim.
  claim_token        bigint      NOT NULL DEFAULT 0,
  lease_expires_at   timestamptz,
  last_error_code    text,
  last_error_message text,
  failed_at          timestamptz,
  sent_at            timestamptz,
  created_at         timestamptz NOT NULL DEFAULT now(),
  updated_at         timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

CREATE INDEX media_transfers_pending ON media_transfers (tenant_id, next_attempt_at, media_id) WHERE state = 'pending';
CREATE INDEX media_transfers_sending ON media_transfers (claimed_by) WHERE state = 'sending';
CREATE INDEX media_transfers_failed ON media_transfers (tenant_id, failed_at DESC) WHERE state = 'failed';
CREATE INDEX media_transfers_sent ON media_transfers (sent_at) WHERE state = 'sent';


-- Every event is written three times, appended, claimed and acknowledged, and each time into every index that the row belongs to.
-- Those that the primary key or another index makes unnecessary go: a third of the outbox's work was for them.
--   (tenant_id, id) is unique because id alone is.
--   (tenant_id, occurred_at DESC), for questions about a time in the past, becomes a summary for each stretch of the table, which
--   an update seldom touches. What is pending stands in the claim index in that order, and dead letters in theirs.
ALTER TABLE sync_outbox DROP CONSTRAINT sync_outbox_tenant_event;
DROP INDEX sync_outbox_tenant_occurred;
CREATE INDEX sync_outbox_occurred ON sync_outbox USING brin (occurred_at) WITH (pages_per_range = 32, autosummarize = on);

-- The same rules as before, after the change instead of before it: a trigger before an update has PostgreSQL lock each row first, and
-- write that down, also where the rule then has nothing to say. What is refused is undone as a whole either way.
DROP TRIGGER sync_outbox_transition ON sync_outbox;
CREATE TRIGGER sync_outbox_transition
  AFTER UPDATE OF status ON sync_outbox FOR EACH ROW
  WHEN (OLD.status <> NEW.status AND (OLD.status, NEW.status) NOT IN (
    ('pending', 'claimed'), ('claimed', 'acked'), ('claimed', 'pending'), ('claimed', 'dlq'), ('pending', 'dlq'),
    ('claimed', 'sending'), ('sending', 'acked'), ('sending', 'pending'), ('sending', 'dlq'),
    ('dlq', 'pending')))
  EXECUTE FUNCTION refuse_sync_outbox_change('transition');

DROP TRIGGER sync_outbox_payload ON sync_outbox;
CREATE TRIGGER sync_outbox_payload
  AFTER UPDATE OF payload_json ON sync_outbox FOR EACH ROW
  WHEN (OLD.payload_json IS DISTINCT FROM NEW.payload_json)
  EXECUTE FUNCTION refuse_sync_outbox_change('payload');

DROP TRIGGER sync_outbox_delete ON sync_outbox;
CREATE TRIGGER sync_outbox_delete
  AFTER DELETE ON sync_outbox FOR EACH ROW
  WHEN (OLD.status IN ('pending', 'claimed', 'sending'))
  EXECUTE FUNCTION refuse_sync_outbox_change('delete');

-- Only for a statement that does not set updated_at itself, as the forwarder's statements do, and not for the update in here.
DROP TRIGGER sync_outbox_touch ON sync_outbox;
CREATE OR REPLACE FUNCTION touch_sync_outbox() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE sync_outbox SET updated_at = now() WHERE id = NEW.id;
  RETURN NULL;
END
$$;
CREATE TRIGGER sync_outbox_touch
  AFTER UPDATE ON sync_outbox FOR EACH ROW
  WHEN (OLD.updated_at = NEW.updated_at AND pg_trigger_depth() = 0)
  EXECUTE FUNCTION touch_sync_outbox();
