-- What an event id stood for when it came first, and the edge that delivered it. A row of an earlier release has neither, and counts
-- as the same event. Adding columns without a default rewrites nothing, and an older replica goes on inserting without them.
ALTER TABLE ingest_dedupe
  ADD COLUMN edge_cluster_id text,
  ADD COLUMN content_hash    bytea CHECK (octet_length(content_hash) = 16);
