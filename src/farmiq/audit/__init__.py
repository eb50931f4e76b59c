"""The audit: captured = stored + declared lost + in flight, for every device and at every tier, or where it does not balance.

In:  what each tier says of itself over its HTTP API, and the spools of nodes on this machine, looked at from outside.
Out: a verdict, the figures behind it, and for every range that is missing where it was last seen.

Nothing is changed and nobody is stopped. A running farm moves while it is asked, so the tiers are asked against the stream, the
cloud first and the node last: what moves meanwhile is in flight, and never where nobody had sent it to. What looks wrong is asked
for again, and counts only when the same sequences look wrong each time.

- `streams.py`    one stream: which of its sequences are where (pure)
- `devices.py`    one device at one tier: coverage against aggregates and rows (pure)
- `singles.py`    its single readings, by their ids or counted (pure)
- `buckets.py`    aggregates of hours and days at both tiers
- `device_reading.py` what each tier said of one device
- `content.py`    what samples say: digests of both tiers, and the samples of blocks that differ
- `records.py`    readings, weights, results, losses and analytics' hours, which two services have under one id
- `weighings.py`  sessions and pictures (pure)
- `held.py`       what the cloud does not take until a person decides
- `findings.py`   what can be wrong, in words, and what has been wrong each time it was asked (pure)
- `balance.py`    everything together, and the verdict (pure)
- `answers.py`    what the tiers say, as far as it is needed
- `asking.py`, `weighing_asking.py` asking them, in order
- `spools.py`     the nodes of this machine
- `rounds.py`     asking again
"""
