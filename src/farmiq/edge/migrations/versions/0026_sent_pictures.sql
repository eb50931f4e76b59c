-- A picture with notes of its camera in it leaves the edge without them. Then these have the size and checksum of what leaves; NULL:
-- the stored bytes leave as they are.
ALTER TABLE media_objects ADD COLUMN sent_size_bytes bigint, ADD COLUMN sent_sha256 text;

-- `size_bytes` and `sha256` are those of what is sent. The size of what is stored, when notes have to be left out of it.
ALTER TABLE media_transfers ADD COLUMN stored_size_bytes bigint;
