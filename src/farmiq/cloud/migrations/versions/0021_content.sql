-- What the samples of a stream say, in one number for each block of 4,096 sequences: the sum of a hash of each modulo 2^62. Beside the
-- coverage of a stream, written with it, and gone only with it: a block keeps its digest when retention has taken its rows.
--
-- Samples that were stored before have no part in it. A block with fewer `samples` than its stream has received of it is not complete,
-- and says nothing.
CREATE TABLE stream_content (
  tenant_id text   NOT NULL,
  stream_id uuid   NOT NULL,
  block     bigint NOT NULL CHECK (block >= 0),
  samples   bigint NOT NULL CHECK (samples > 0),
  digest    bigint NOT NULL CHECK (digest >= 0 AND digest < 4611686018427387904),
  PRIMARY KEY (tenant_id, stream_id, block),
  FOREIGN KEY (tenant_id, stream_id) REFERENCES streams ON DELETE CASCADE
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
