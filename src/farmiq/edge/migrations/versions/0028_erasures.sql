-- What was erased of a tenant, on whose word, and how much it was. The record stays when nothing else of the tenant does.
CREATE TABLE tenant_erasures (
  erasure_id      bigint      GENERATED ALWAYS AS IDENTITY,
  tenant_id       text        NOT NULL,
  erased_by       text        NOT NULL,
  reason          text        NOT NULL,
  begun_at        timestamptz NOT NULL DEFAULT now(),
  -- NULL: cut short, or something was left. The same command goes on with this record.
  finished_at     timestamptz,
  rows_by_table   jsonb       NOT NULL DEFAULT '{}',
  objects         bigint      NOT NULL DEFAULT 0,
  object_bytes    bigint      NOT NULL DEFAULT 0,
  -- When the samples were measured.
  first_sample_at timestamptz,
  last_sample_at  timestamptz,
  PRIMARY KEY (tenant_id, erasure_id)
);
CREATE UNIQUE INDEX tenant_erasures_unfinished ON tenant_erasures (tenant_id) WHERE finished_at IS NULL;
CREATE INDEX tenant_erasures_tenant ON tenant_erasures (tenant_id, begun_at DESC);

ALTER TABLE tenant_erasures ENABLE ROW LEVEL SECURITY;
CREATE POLICY read ON tenant_erasures FOR SELECT USING (
  tenant_id = (SELECT current_setting('farmiq.tenants', true))
  OR (SELECT current_setting('farmiq.tenants', true) = '*')
  OR tenant_id = ANY ((SELECT string_to_array(current_setting('farmiq.tenants', true), ','))::text[]));

-- Whoever erases a tenant names it for the time of the connection, and takes its events with it, also those that wait.
DROP TRIGGER sync_outbox_delete ON sync_outbox;
CREATE TRIGGER sync_outbox_delete
  AFTER DELETE ON sync_outbox FOR EACH ROW
  WHEN (OLD.status IN ('pending', 'claimed', 'sending')
        AND OLD.tenant_id IS DISTINCT FROM current_setting('farmiq.erased_tenant', true))
  EXECUTE FUNCTION refuse_sync_outbox_change('delete');
