"""`node-agent`: samples sensors on schedule, whatever the network does.

In:       sensors, through drivers, as the sensors file describes them; the clock.
Out:      samples to `node-forwarder` over a Unix socket, each with wall time, monotonic time, boot id and time quality;
          what had to be given up, as a loss; which sensors fail, for the node's status.
Promises: a sample counts as captured only when the forwarder has said that it is on disk. What waits for that is kept in
          memory, in order, up to a bound; beyond it the oldest are given up, and declared lost to the forwarder before
          anything that came after them. A value that is not finite or not plausible never becomes a sample.
Away:     a sensor that fails is reported once and goes on being tried; each device has its own task and its own grid of time,
          so the others do not notice. The forwarder away: sampling goes on, the agent reconnects and sends again what was not
          acknowledged. Asked to stop, it tries for a few seconds to hand over what waits, and logs what it could not.

The files, in the order of a sample's way: `sensors_file` (what there is; `toml_tables` one folder up: what is wrong
with it; `plugins`: which driver), `drivers/`, `sampler` (when), `plausibility` (is it a sample, pure), `health` (who fails),
`stamps` and `time_quality` (what time it is, and how sure), `backlog` (what still waits, pure), `delivery` (the socket); beside
them `boot`, `settings` and `main`.
"""
