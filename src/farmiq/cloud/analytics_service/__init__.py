"""`cloud-analytics-service`: what a barn's day came to, and what was not as it should be.

In:       `farmiq.cloud-analytics-service.kpi.queue`: hours (`telemetry.aggregated`), when a series was last heard (packs and
          single readings), declared losses, weigh sessions, recorded weights, inference results.
Out:      its own tables of facts; from them, day by day, KPIs for each barn and batch, and anomalies with their evidence; the
          API on port 5203.
Promises: the same events give the same facts, whatever is redelivered and in whatever order. A message is acknowledged after
          the commit of its facts and of the marks on the days that they change; a marked day is computed again, and only a
          marked one. Results and the removal of the marks are one transaction: killed anywhere, the day is computed again.
Away:     PostgreSQL away: holds what it has, acknowledges nothing, tries again; the queue keeps the rest. RabbitMQ away:
          reconnects by itself; days are computed and questions answered from what is here.

The way of an event: `consumer` → `facts` (what it tells, pure) → `handlers` (one transaction) → `store` (merges), `marks`.
The way of a day: `worker` → `marks` → `rows` (reads `inputs`) → `barn_day` (pure) with `weights`, `growth`, `comfort`,
`completeness` and `anomalies` → `results`. Questions: `api` → `queries`. `days` knows the farm's clock, `robust` the statistics.
"""
