"""The lane of the pictures: each follows its `media.stored` to the cloud, and none holds up an event.

In    rows of `media_transfers`, written by `intake.follow_picture` in the transaction that stores the event. Event and picture
      travel apart: the cloud takes them in either order.
Out   for each picture: `POST CLOUD_MEDIA_URL/api/v1/media/presign`, a PUT of the bytes straight from the edge's object store to
      the URL in the answer, `POST .../complete`; the row's new state.

    pending ──claim──▶ sending ──settle──▶ sent       the cloud has compared size and checksum
       ▲                  │
       ├──── put off ─────┤                           cloud or store away: no attempt; an answer about the picture: one
       │                  └──settle──────▶ failed     given up, with the reason and an alert
       └── redrive, by a person ──┘          a `sent` one that the cloud misses is `pending` again

Apart from the events in everything that could be short: its own connections, its own claim, `MEDIA_SYNC_PARALLEL` pictures at a
time, `MEDIA_SYNC_BYTES_IN_FLIGHT` bytes of pictures under way, `MEDIA_SYNC_BYTES_PER_SECOND` on the uplink.

After a crash, between any two steps: the row's lease ends, and the whole is done again. The URL is made anew at each attempt, the
store takes a body only whole and only once, and a cloud that has the picture says `stored` before a byte is sent.

The files: `worker` (whose turn) → `transfer` (one picture, in order) → `cloud` (presign, complete) → `upload` (the bytes), `flow`
(counted, compared, slowed down) → `verdicts` (what it means, pure) → `settlement` → `store` (every SQL). `bandwidth` and `pauses`
are pure; `wanted` sends again what the cloud misses; `api` is what an operator asks.
"""
