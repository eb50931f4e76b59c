"""`edge-sync-forwarder`: drains `sync_outbox` to the cloud. As many replicas as you like.

In:       rows of `sync_outbox`, claimed in batches of one tenant, tenants in turn. A NOTIFY on `sync_outbox`, the time at
          which a row is due, `POST /api/v1/sync/trigger` and at the latest `SYNC_INTERVAL_MS` wake it.
Out:      `POST CLOUD_INGESTION_URL`, zstd, `SYNC_REQUESTS_IN_FLIGHT` at a time over connections that are kept, each at most
          `SYNC_REQUEST_BYTES_MAX`; the rows' new states and the tenant's `sync_state`, in one transaction; one pair of
          `sync.batch` events a tenant and minute; pictures, in a lane of their own (`pictures`); an API on port 5108.
          A batch without events every `SYNC_EPOCH_SECONDS` for a tenant that has nothing to send: the answer shows whether the
          cloud has lost anything.
Promises: a row is acknowledged only after the cloud has answered `accepted` or `duplicate` for that very event. Killed
          anywhere, what it had claimed is claimed again when its lease is over, and sent again under the same id. An
          event is sent at least once; the cloud makes that once. No event reaches the DLQ for what the cloud said about
          its neighbours. What the cloud has lost is sent again; as long as it may have lost something, nothing that it had
          acknowledged is deleted. Asked to stop, it gives back what is not under way at once, and the rest after five seconds.
Away:     the cloud cannot be reached (no connection, no answer in time, 408, 425, 429, 502, 503, 504, a captive portal) or
          does not take requests like ours (401, 403, 404, 405, 407, 415: token, URL or proxy are wrong): the tenant pauses,
          longer each time up to a minute or as long as `Retry-After` says, then one replica sends one batch as a probe. That
          costs an event no attempt, so days offline put nothing into the DLQ. An answer about the events (500, other 4xx,
          `rejected`) costs an attempt, waits as documented and ends in the DLQ after `OUTBOX_MAX_ATTEMPTS`. Without
          PostgreSQL it waits, and `GET /api/ready` says so.

The way of a batch through the files: `worker` (whose turn) → `delivery` (claim, send) → `envelopes` (rows to bytes, pure) →
`requests` (what goes together, and who is to blame, pure) → `cloud` (HTTP) → `answers` (what an answer means, pure) →
`settlement` → `store` and `outbox` (written down). `cloud_epochs` (pure) compares the cloud's answers, and `resending` sends
again. `holding` renews the leases meanwhile; `breaker` (pure) says how long to pause; `outbox.wakeup` listens; `reporter` makes
the `sync.batch` events; `sampler` and `counters` make the metrics; `janitor` retires old rows, as one of the `jobs`. `intake` is
what other services of the edge call, and `pictures` how a picture follows its event.
"""
