"""`edge-weighvision-session`: owner of the weigh sessions at the edge.

In:       what stations say of their sessions, through `intake` and inside the gateway's transaction; that a picture is stored,
          inside the transaction of `edge-media-store`; what models said, inside that of `edge-vision-inference`; and operators,
          who attach a picture or finalize a session, on port 5105.
Out:      `weight_sessions`, `session_weights`, `session_pictures`, `session_results`, `session_operations`; in the same
          transaction one event in `sync_outbox` for every word of a station, under the station's own event id. The end of a
          session is told by this service once its pictures and inference are in, or after SESSION_SETTLE_SECONDS; and again,
          with the next `revision`, should it change. `GET /api/v1/weighvision/sessions`, with what is missing and where it is.
Promises: any order of events, and any number of repetitions, ends in the same session. A session that waits for pictures, or
          for its end, longer than SESSION_INCOMPLETE_MINUTES is incomplete and has one alert, which closes when they come.
          A session is its station's: no other device and no other tenant can add to it, or see it.
Away:     this service away: stations' events are stored and passed on all the same; the end of sessions and alerts wait for it.
          Cloud away: nothing here notices. Without PostgreSQL, `GET /api/ready` says so and questions answer 503.

The files, in the order of a session's life: `events` (what comes in), `intake` (what other services may call), `session` (pure:
what the facts add up to), `watch` (pure: when it is late, when the cloud is told), `ending` and `telling` (pure: what the cloud
is told), `outgoing`, `handlers` (the transactions), `worker`; beside them `kept` (the row), `store` (SQL), `questions` and
`views` (what people see), `api`, `cleanup` and `jobs` (the end of old sessions), `counters`, `settings`, `main`.
"""
