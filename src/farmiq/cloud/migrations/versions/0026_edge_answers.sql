-- The answers to an edge's batches of one tenant, numbered. `answered` is written in the transaction that accepts the events, so a
-- database that went back says a lower number than the edge has heard.
-- tokens: of the last answers, the newest at the end. Made at random: numbers that are given once more have other tokens.
-- epoch, began_at, resend_since: what this edge is told of `cloud_identity`, or an epoch of its own that began later.
-- epoch_answer: how many there were when this epoch began; NULL in the first. What was accepted before may be lost: when it comes
-- again, it is passed on although it is remembered.
-- resend_after: since this epoch began, and until the edge has heard of it: it sends again what was acknowledged by later answers.
CREATE TABLE edge_answers (
  tenant_id       text        NOT NULL,
  edge_cluster_id text        NOT NULL,
  answered        bigint      NOT NULL DEFAULT 0,
  tokens          integer[]   NOT NULL DEFAULT '{}',
  epoch           uuid        NOT NULL,
  epoch_answer    bigint,
  began_at        timestamptz NOT NULL,
  resend_since    timestamptz,
  resend_after    bigint,
  PRIMARY KEY (tenant_id, edge_cluster_id)
) WITH (fillfactor = 50);

-- How far the numbers had come, hour by hour: an event may be on the bus for as long as `cloud/restore_epoch.py` says.
CREATE TABLE edge_answer_marks (
  tenant_id       text        NOT NULL,
  edge_cluster_id text        NOT NULL,
  answered        bigint      NOT NULL,
  marked_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, edge_cluster_id, answered)
);

-- How many answers its edge had had of this tenant when the event came. NULL: of an earlier release, or from an edge that names no
-- tenant.
ALTER TABLE ingest_dedupe ADD COLUMN after_answer bigint;

-- No request reads them.
ALTER TABLE edge_answers ENABLE ROW LEVEL SECURITY;
ALTER TABLE edge_answer_marks ENABLE ROW LEVEL SECURITY;
