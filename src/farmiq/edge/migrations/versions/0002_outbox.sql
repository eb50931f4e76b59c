-- Events on their way to the cloud. The columns up to updated_at, their names and their defaults are a contract: operators
-- insert and select them by hand. The two after that belong to the forwarder.
CREATE TABLE sync_outbox (
  id                 uuid        PRIMARY KEY,
  tenant_id          text        NOT NULL,
  farm_id            text,
  barn_id            text,
  device_id          text,
  session_id         uuid,
  event_type         text        NOT NULL,
  -- NULL when nobody knows. Such a row sorts behind the rows with a time, in the claim index as in a plain ORDER BY, and
  -- counts as having occurred when it was created. A default or a trigger would invent a time that looks measured, and a
  -- BEFORE INSERT trigger would also take away COPY's multi-row inserts.
  occurred_at        timestamptz,
  trace_id           text,
  payload_json       jsonb       NOT NULL,
  payload_size_bytes integer,
  status             text        NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'claimed', 'sending', 'acked', 'dlq', 'failed')),
  priority           integer     NOT NULL DEFAULT 0,
  attempt_count      integer     NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
  last_attempt_at    timestamptz,
  next_attempt_at    timestamptz NOT NULL DEFAULT now(),
  claimed_by         text,
  claimed_at         timestamptz,
  lease_expires_at   timestamptz,
  last_error_code    text,
  last_error_message text,
  failed_at          timestamptz,
  dlq_reason         text,
  created_at         timestamptz NOT NULL DEFAULT now(),
  updated_at         timestamptz NOT NULL DEFAULT now(),
  -- Fencing: goes up with every claim, and an ack that brings an old one changes nothing.
  claim_token        bigint      NOT NULL DEFAULT 0,
  -- A backed-off row waits outside the claim index until it is promoted. It says something only while the row is pending.
  parked             boolean     NOT NULL DEFAULT false,
  CONSTRAINT sync_outbox_tenant_event UNIQUE (tenant_id, id)
) WITH (
  -- Two dead versions for each event sent: the claim index must not be left to the default 20 % of the table.
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_cost_limit = 10000
);

-- In the order of the claim, over the rows that can be claimed: the cost of a claim depends on its batch, not on the backlog.
CREATE INDEX sync_outbox_claimable ON sync_outbox (tenant_id, priority DESC, occurred_at, id)
  WHERE status = 'pending' AND NOT parked;
CREATE INDEX sync_outbox_parked ON sync_outbox (next_attempt_at)
  WHERE status = 'pending' AND parked;
-- For the scan after expired leases. Only rows in flight are in it, so lease_expires_at is left out: were it indexed, every
-- renewal would write to every index of the table.
CREATE INDEX sync_outbox_in_flight ON sync_outbox (claimed_by)
  WHERE status IN ('claimed', 'sending');
CREATE INDEX sync_outbox_dead_letters ON sync_outbox (tenant_id, failed_at DESC)
  WHERE status = 'dlq';
CREATE INDEX sync_outbox_tenant_occurred ON sync_outbox (tenant_id, occurred_at DESC);


CREATE FUNCTION refuse_sync_outbox_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  CASE TG_ARGV[0]
    WHEN 'transition' THEN
      RAISE EXCEPTION 'sync_outbox row % cannot go from % to %', OLD.id, OLD.status, NEW.status USING
        ERRCODE = 'check_violation', TABLE = 'sync_outbox', COLUMN = 'status', CONSTRAINT = TG_NAME;
    WHEN 'payload' THEN
      RAISE EXCEPTION 'the payload of sync_outbox row % cannot be changed', OLD.id USING
        ERRCODE = 'check_violation', TABLE = 'sync_outbox', COLUMN = 'payload_json', CONSTRAINT = TG_NAME,
        HINT = 'Insert a new event with its own id.';
    WHEN 'delete' THEN
      RAISE EXCEPTION 'sync_outbox row % is % and cannot be deleted', OLD.id, OLD.status USING
        ERRCODE = 'check_violation', TABLE = 'sync_outbox', COLUMN = 'status', CONSTRAINT = TG_NAME,
        HINT = 'Only acked, dlq and failed rows may go.';
  END CASE;
END
$$;

-- The rules stand in the WHEN clauses, which the executor evaluates by itself: a permitted change calls no function.
-- A row that keeps its status makes no transition: that is a renewed lease, a repeated claim, a retry.
-- dlq to pending is the administrator's redrive. Nothing leads to failed, which old rows may still carry.
CREATE TRIGGER sync_outbox_transition
  BEFORE UPDATE OF status ON sync_outbox FOR EACH ROW
  WHEN (OLD.status <> NEW.status AND (OLD.status, NEW.status) NOT IN (
    ('pending', 'claimed'), ('pending', 'dlq'),
    ('claimed', 'sending'), ('claimed', 'acked'), ('claimed', 'pending'), ('claimed', 'dlq'),
    ('sending', 'acked'), ('sending', 'pending'), ('sending', 'dlq'),
    ('dlq', 'pending')))
  EXECUTE FUNCTION refuse_sync_outbox_change('transition');

-- UPDATE OF, because comparing would otherwise unpack both payloads on every claim and every ack.
CREATE TRIGGER sync_outbox_payload
  BEFORE UPDATE OF payload_json ON sync_outbox FOR EACH ROW
  WHEN (OLD.payload_json IS DISTINCT FROM NEW.payload_json)
  EXECUTE FUNCTION refuse_sync_outbox_change('payload');

CREATE TRIGGER sync_outbox_delete
  BEFORE DELETE ON sync_outbox FOR EACH ROW
  WHEN (OLD.status IN ('pending', 'claimed', 'sending'))
  EXECUTE FUNCTION refuse_sync_outbox_change('delete');

CREATE FUNCTION touch_sync_outbox() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  NEW.updated_at := now();
  RETURN NEW;
END
$$;

-- Called only for a statement that does not set updated_at itself, as the forwarder's statements do.
CREATE TRIGGER sync_outbox_touch
  BEFORE UPDATE ON sync_outbox FOR EACH ROW
  WHEN (OLD.updated_at = NEW.updated_at)
  EXECUTE FUNCTION touch_sync_outbox();


-- One row for each tenant: the last checkpoint, and the breaker that opens when the cloud cannot be reached.
CREATE TABLE sync_state (
  tenant_id            text        PRIMARY KEY,
  last_acked_event_id  uuid,
  last_acked_at        timestamptz,
  last_sent_batch_id   text,
  consecutive_failures integer     NOT NULL DEFAULT 0 CHECK (consecutive_failures >= 0),
  paused_until         timestamptz,
  last_error_code      text,
  last_error_at        timestamptz
) WITH (fillfactor = 50);
