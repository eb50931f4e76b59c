"""`edge-telemetry-timeseries`: owner of the measurements at the edge.

In:       the gateway's accepted messages, through `intake` and inside the gateway's transaction.
Out:      rows in `telemetry_raw`, `telemetry_agg`, `streams`, `stream_losses`, `device_liveness`, `sensor_liveness`; in the
          same transaction one `telemetry.batch.ingested` pack per stored run, one `telemetry.ingested` per single reading and
          one `telemetry.loss` per loss in `sync_outbox`. With `TELEMETRY_SYNC_MODE=aggregated` the first two give way to
          `telemetry.aggregated`, sent by this service once a window has closed, and again when late samples change it;
          with `both` all of them are sent. A query API on port 5104: samples, charts, metrics, streams, gaps, losses, devices,
          and what the services of the edge have noted for a person.
Promises: a sequence is stored once, whatever is delivered again; a row and its outbox event are committed together or
          not at all; an aggregate is what plain SQL would make of the stored samples, and the last event about it says so;
          liveness only moves forward, and a device that is gone does not come back by what it said before.
Away:     nothing here waits for the cloud. Without PostgreSQL, `GET /api/ready` says so and queries answer 503.

`intake` is what the gateway calls. Beside it: `liveness` (pure) and `devices` (what a person is shown), `sync_mode` (pure),
`emission` and `worker` (aggregates on their way to the cloud), `rebuilding` (events once more, for a cloud that lost them),
`retention` (pure), `cleanup`, `expiry` and `jobs` (the end of old rows), `fleet` (pure) and `counters` (the metrics, sampled),
`store` (SQL), `api`, `alert_routes`, `settings`, `main`.
"""
