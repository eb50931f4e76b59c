"""`cloud-media-store`: owner of the pictures in the cloud.

In:       `POST /api/v1/media/presign` and `.../complete` from edges, by their tokens; the bytes, straight into the object store;
          `media.stored` from `farmiq.cloud-media-store.store.queue`.
Out:      `media_objects`; for readers a list, a picture's data, a URL that works for minutes, and a thumbnail, on port 5204; for
          edges the pictures that are wanted.
Promises: identity comes from the credential and object keys are made here. A URL stores one body of the size, type and SHA-256
          that were said, once. A picture is stored only after its bytes were read back and compared. The event and the upload
          give the same row in whatever order they come. What was announced and never came is counted and asked for. A
          thumbnail is made in a process with limits, and has nothing of the original but its pixels.
Away:     object store away: URLs are still signed, nothing changes its state. PostgreSQL away: 503 with Retry-After, and the
          queue keeps the events. RabbitMQ away: reconnects by itself; pictures are taken and shown meanwhile.

The files, in the order of a picture's way: `announcements` (pure) and `consumer` (the bus), `edge_routes` (edges), `handlers`
(the transactions), `store` (SQL), `picture` (the row); `viewer_routes`, `thumbnails` and `intake` (readers); `cleanup`,
`integrity` and `jobs`; `counters`, `settings`, `main`.
"""
