"""`edge-media-store`: owner of the pictures at the edge.

In:       `POST /api/v1/media/images/presign` from a device, by its HTTP token; the bytes, straight into the object store or
          through this service; the word that they are there: `intake` (MQTT, inside the caller's transaction),
          `POST .../complete`, or nobody's, in which case a sweep finds them.
Out:      `media_objects`; for each verified picture, in the transaction that marks it stored, one `media.stored` in
          `sync_outbox` and the transfer that takes the bytes to the cloud. Reads by presigned GET, on port 5106.
Promises: identity comes from the credential and object keys are made here. A URL stores one body of the size, type and SHA-256
          that were said, once. A picture is stored only after its bytes were read back: size, checksum, and every pixel
          decoded, in a process with limits. Exactly one `media.stored` for each, whoever dies and however many replicas look.
          What is refused says why and is kept for a while; what was announced and never came is missing, not forgotten: its
          station sends it again, or it is declared lost.
Away:     object store away: URLs are still signed, nothing changes its state, and looking goes on when it is back. PostgreSQL
          away: 503 with Retry-After, nothing is signed. Cloud away: nothing here notices; retention holds what it does not have.

The files, in the order of a picture's way: `screening` (pure), `handlers` (the transactions), `intake` (what other services may
call), `inspection` (the object store and the picture's pixels), `verdicts` (pure), `worker`; beside it `picture` (the row),
`store` (SQL), `losses` (what is sent again or declared lost), `api` and `upload_routes` (devices), `read_routes` (people),
`retention` (pure), `cleanup` and `jobs`, `integrity` (`farmiq media check`), `counters`, `settings`, `main`.
"""
