"""`edge-telemetry-timeseries`: owner of the measurements at the edge.

In:       the gateway's accepted messages, through `intake` and inside the gateway's transaction.
Out:      rows in `telemetry_raw`, `telemetry_agg`, `streams`, `stream_losses`, `device_liveness`; in the same transaction
          one `telemetry.batch.ingested` pack per stored run, one `telemetry.ingested` per single reading and one
          `telemetry.loss` per loss in `sync_outbox`; a query API on port 5104.
Promises: a sequence is stored once, whatever is delivered again; a row and its outbox event are committed together or
          not at all; liveness only moves forward.
Away:     nothing here waits for the cloud. Without PostgreSQL, `GET /api/ready` says so and queries answer 503.
"""
