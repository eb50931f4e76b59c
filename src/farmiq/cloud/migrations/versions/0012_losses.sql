-- A page of the ledger is read in this order, and its sums from the index alone.
CREATE INDEX stream_losses_tenant_dropped ON stream_losses (tenant_id, dropped_at DESC, event_id DESC) INCLUDE (reason, count);
