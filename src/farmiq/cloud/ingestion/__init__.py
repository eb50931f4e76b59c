"""`cloud-ingestion`: the only entrance to the cloud. Stateless, as many replicas as you like.

In:       `POST /api/v1/edge/batch` from edges, with the edge's bearer token, plain, gzip or zstd.
Out:      each new event on its exchange, confirmed by RabbitMQ; its `(tenant_id, event_id)` in `ingest_dedupe`; one result
          for each event. The API is on port 5201.
Promises: `accepted` means that a queue of the bus has the event, and that its dedupe row is committed. The order is: dedupe
          row written, event published and confirmed, row committed, answer sent. Killed before the confirm, neither is
          there; killed between confirm and commit, the edge sends again and the event is on the bus twice, which its
          consumers recognise. Two requests with the same event at the same time: the second waits for the first.
          `duplicate` means that an event of the same origin, type and content is there under this id; an id that stands for
          another event is rejected as `event_id_reused`, and its edge keeps the event in its DLQ. A row of 0.1.0 has no digest
          of its content and counts as the same event.
          An edge speaks only for its own tenants, as its token says and not the body. A malformed event is rejected alone.
          Answers to an edge are numbered in the transaction that accepts its events: an edge that has heard of more answers than
          there are here is told to send again. What was accepted before that is put on the bus once more when it comes.
          A token that is revoked opens nothing from the next request on, at every replica.
Away:     RabbitMQ or PostgreSQL away: 503 with `Retry-After`; what had been confirmed is kept as done, the rest is
          forgotten, and the edge keeps everything until it is answered. A binding that somebody has deleted is made again,
          and the batch is answered with 503. An event of a type that no queue is for is rejected as `unroutable`: its edge
          tries again, and then keeps it in its DLQ.

It declares the whole of the bus when it connects, for every service that consumes, so that an event finds its queues on the first
day and on a broker that came back empty. With `ADMIN_TOKEN` it shows dead letters and brings them back (`dead_letter_routes`).

With `EXPAND_TELEMETRY_BATCHES=true` the samples of a pack are on the bus one by one too, before the pack is remembered.

The way of a batch through the files: `api` → `edges` (who is it) → `pace` (not too often) → `body` (inflate within limits) →
`screening` (what can be accepted, pure) → `handlers` (dedupe, publish, commit) → `store`, `expansion`; `epochs` (the answer's
number).
"""
