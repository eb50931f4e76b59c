"""The tables that hold measurements, the same at the edge and in the cloud: how a batch becomes rows exactly once.

`streams`         one row per stream: which sequences are here (`received`), which are declared lost (`lost`)
`telemetry_raw`   one row per sample, in monthly partitions
`telemetry_agg`   count, sum, minimum and maximum per minute, hour and day
`stream_losses`   the ledger of declared losses

A batch is stored by locking its stream's row, copying in only the sequences that are not there yet, adding them to the
aggregates, and adding the range to `received`: all in the caller's transaction. Whatever is delivered again finds its
sequences covered and changes nothing, so a plain `COPY` is safe and no row needs a conflict check. Streams are made
and locked in the order of their ids and aggregates written in the order of their keys, so that writers do not wait for each
other in a circle; where they do all the same (several losses in one transaction), PostgreSQL ends one and it is done again.

The owners are `edge-telemetry-timeseries` and `cloud-telemetry-service`. Everybody else goes through them.

- `coverage.py`  which sequences are missing, and the highest contiguous one (pure)
- `stream.py`    whose a stream is, and its coverage
- `rollup.py`    the aggregates of some samples (pure)
- `samples.py`   the rows of a batch (pure)
- `admission.py` the transaction's steps, in order
- `store.py`     every SQL statement that writes

- `announcement.py` of which aggregates others are told, when, and in what words
- `delay.py`, `loss_totals.py` what the metrics of both tiers show of it

Questions have files of their own, each with its statements and its routes: `queries.py` and `routes.py` (samples, totals),
`aggregates.py` and `chart_routes.py` (charts, and which metrics there are), `completeness.py` and `stream_routes.py` (gaps and
losses), `hours.py`, `device_totals.py` and `hour_routes.py` (the same hour by hour, and each device in one line), `losses.py`
and `loss_routes.py` (the ledger of a tenant), `spans.py` and `span_routes.py` (the same beside a chart, and what came late),
`accounts.py`, `stored_rows.py` and `account_routes.py` (what this tier has, for whoever compares it with another one);
`parameters.py` holds what may be asked, `paging.py` where a page ended. A page reads a number of rows that
depends on the page and not on the table. Whole files are made by `export.py` and the files named after it, from the pages of
`reading_export.py` and `bucket_export.py`.
"""
