"""`node-agent`: samples sensors on schedule, whatever the network does.

In:       sensors, through drivers; the clock.
Out:      samples to `node-forwarder` over a Unix socket, each with wall time, monotonic time, boot id and time quality.
Promises: a sample counts as captured only when the forwarder has said that it is on disk. What waits for that is kept in
          memory, in order, up to a bound; beyond it the oldest are given up, counted, and reported.
Away:     a sensor that fails is reported once and skipped until it works again, and the others go on. The forwarder away:
          sampling goes on, the agent reconnects and sends again what was not acknowledged.

The files, in the order of a sample's way: `drivers/`, `sampler` (when), `backlog` (what still waits, pure), `delivery` (the
socket), `time_quality`; beside them `settings` and `main`.
"""
