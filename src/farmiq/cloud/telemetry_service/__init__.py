"""`cloud-telemetry-service`: owner of the measurements, weigh sessions and events in the cloud.

In:       `farmiq.cloud-telemetry-service.ingest.queue`: packs (`telemetry.batch.ingested`), single readings
          (`telemetry.ingested`), declared losses (`telemetry.loss`), aggregates from edges that send those
          (`telemetry.aggregated`), weigh sessions with their weights, pictures and inference results, what edges say about their
          sending (`sync.batch.*`), and every event of a type that has no table of its own.
Out:      the same tables of measurements as at the edge (`farmiq.timeseries`), `weight_sessions`, `recorded_weights`,
          `captured_images`, `inference_results`, `sync_batches` and `device_events`, in one transaction per micro-batch; then the
          message's acknowledgement. `telemetry.aggregated` for windows that have closed, and again when late samples changed
          them. A query API on port 5202, for viewers' tokens, with CSV, Arrow and Parquet.
Promises: whatever is redelivered, and in whatever order everything comes, the tables are the same. A sequence is stored once. A
          session that has ended stays ended. A bucket shows what its samples gave or what an edge sent, whichever counted
          more, and never their sum. Every change of a closed window is told to the bus; a repeat is the same event. A
          message that can never be stored goes to `farmiq.cloud-telemetry-service.dlq.queue` as it came, and costs its
          neighbours nothing.
Away:     PostgreSQL away: holds what it has, acknowledges nothing, tries again; the queue keeps the rest. RabbitMQ away:
          reconnects by itself, queries go on, and what is to be told waits in `telemetry_agg_unsent`.

- `messages.py`, `measurements.py`  what a message says (pure)
- `consumer.py`, `handlers.py`      the way in, and its one transaction
- `received.py`                     aggregates that an edge sent, beside samples or instead of them
- `sessions.py`, `weighing_store.py`, `event_store.py`  sessions put together from events; every statement that writes them
- `unsent.py`, `emission.py`, `worker.py`  the bus is told of aggregates
- `api.py`, `session_routes.py`, `session_queries.py`, `session_parts.py`, `event_routes.py`  what can be asked
- `cleanup.py`, `jobs.py`           months made ahead, and what is past its retention
- `intake.py`                       what other services of the cloud may call
"""
