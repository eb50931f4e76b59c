-- What is stored of each boot within a stream: its first and its last sequence, and the time of the last one in microseconds, as the
-- device sent it. A device compares it with its own samples, and finds out that its disk was set back. What was stored before this
-- table has no rows: the samples themselves are compared as long as they are here.
CREATE TABLE stream_boots (
  tenant_id text   NOT NULL,
  stream_id uuid   NOT NULL,
  boot_id   uuid   NOT NULL,
  first_seq bigint NOT NULL,
  last_seq  bigint NOT NULL CHECK (last_seq >= first_seq),
  last_t    bigint NOT NULL,
  PRIMARY KEY (tenant_id, stream_id, boot_id),
  FOREIGN KEY (tenant_id, stream_id) REFERENCES streams ON DELETE CASCADE
) WITH (fillfactor = 80);

ALTER TABLE stream_boots ENABLE ROW LEVEL SECURITY;

-- The PostgreSQL server that was seen last: its system identifier, and the timeline of its log. NULL: not looked at yet.
ALTER TABLE edge_identity
  ADD COLUMN system_identifier bigint,
  ADD COLUMN timeline          integer;
