-- The cloud counts its answers to this edge, one count a tenant. What it has lost of them, if it ever went back, is told by the number.
-- acked_answer: the answer that acknowledged the event. NULL: not acknowledged yet, or by a cloud that did not count.
ALTER TABLE sync_outbox ADD COLUMN acked_answer bigint;

-- The same of a picture: the last answer before it was sent.
ALTER TABLE media_transfers ADD COLUMN sent_answer bigint;

-- cloud_answer: the greatest number that was written down. heard_answer, heard_token: the last answer that is known to stand in one
-- row with all before it; cloud_heard_at: when there was one. resend_from, resend_to: what was acknowledged by the
-- answers in between is sent again; resend_after says how far that has come. rebuild_...: the row of telemetry_raw up to which
-- what the outbox no longer has was made into events again; NULL before and after.
ALTER TABLE sync_state
  ADD COLUMN cloud_answer   bigint NOT NULL DEFAULT 0,
  ADD COLUMN heard_answer   bigint NOT NULL DEFAULT 0,
  ADD COLUMN heard_token    integer,
  ADD COLUMN cloud_heard_at timestamptz,
  ADD COLUMN resend_from    bigint,
  ADD COLUMN resend_to      bigint,
  ADD COLUMN rebuild_device text,
  ADD COLUMN rebuild_at     timestamptz,
  ADD COLUMN rebuild_id     uuid;

-- Whether this database ever came from a backup: what it sends may then differ from what it has sent before, under the same id.
ALTER TABLE edge_identity ADD COLUMN is_restored boolean NOT NULL DEFAULT false;

-- What was measured and is in the outbox no more: the greatest number of an answer that acknowledged some of it. kind: 'samples',
-- or the window of aggregates. What an earlier release removed has no number, and may be anything that was sent.
CREATE TABLE outbox_retired (
  tenant_id text   NOT NULL,
  kind      text   NOT NULL,
  answer    bigint NOT NULL,
  PRIMARY KEY (tenant_id, kind)
);
INSERT INTO outbox_retired (tenant_id, kind, answer)
SELECT DISTINCT tenant_id, CASE WHEN event_type = 'telemetry.aggregated' THEN payload_json ->> 'aggregation_window' ELSE 'samples' END, 0
  FROM sync_outbox WHERE event_type IN ('telemetry.batch.ingested', 'telemetry.ingested', 'telemetry.aggregated')
   AND (event_type <> 'telemetry.aggregated' OR payload_json ? 'aggregation_window');
INSERT INTO outbox_retired (tenant_id, kind, answer)
SELECT DISTINCT tenant_id, 'samples', 0 FROM streams WHERE tenant_id NOT IN (SELECT tenant_id FROM outbox_retired);

-- One that is under way began at a time, and times are not gone by any more: it begins anew, with everything.
UPDATE sync_state SET resend_from = 0, resend_to = 0, resend_after = '00000000-0000-0000-0000-000000000000'
WHERE resend_until IS NOT NULL;
-- resend_since and resend_until stay for a forwarder of the release before, which may still run: nothing reads them any more.

-- No request reads it.
ALTER TABLE outbox_retired ENABLE ROW LEVEL SECURITY;
