"""`cloud-telemetry-service`: owner of the measurements in the cloud.

In:       `farmiq.cloud-telemetry-service.ingest.queue`: packs (`telemetry.batch.ingested`), single readings
          (`telemetry.ingested`), declared losses (`telemetry.loss`), and aggregates from edges that send those
          (`telemetry.aggregated`).
Out:      the same tables as at the edge (`farmiq.timeseries`), in one transaction per micro-batch; then the message's
          acknowledgement; a query API on port 5202.
Promises: a sequence is stored once, whatever is redelivered. A bucket shows what its samples gave or what an edge sent,
          whichever counted more, in whatever order they came, and never their sum. A message that can never be stored goes to
          `farmiq.cloud-telemetry-service.dlq.queue` as it came, and costs its neighbours nothing.
Away:     PostgreSQL away: holds what it has, acknowledges nothing, tries again; the queue keeps the rest. RabbitMQ away:
          reconnects by itself, and queries go on.
"""
