-- What a tenant's requests to the cloud added up to since the last pair of sync.batch events. Counted in the transaction that
-- settles the rows and reset in the one that appends the pair, so a crash counts nothing twice and forgets nothing.
ALTER TABLE sync_state
  ADD COLUMN unreported_sent  bigint NOT NULL DEFAULT 0,
  ADD COLUMN unreported_acked bigint NOT NULL DEFAULT 0,
  ADD COLUMN unreported_since timestamptz;
