"""A writer that says how far it may be believed, until it is killed."""

import sys
from pathlib import Path

from farmiq.spool import Channel, Limits, Spool, SyncPolicy
from unit.spool.spool_world import BOOT, samples

folder, policy = Path(sys.argv[1]), SyncPolicy(sys.argv[2])
limits = Limits(segment_bytes=16384, grow_bytes=4096, max_spool_bytes=1 << 26, keep_acked_bytes=0)
spool = Spool(folder, limits, policy)
spool.begin(BOOT, [Channel("temperature", "C", "t1")])
seq = spool.synced_seq
while True:
    for _ in range(3):
        span = spool.append_many(samples(1 + seq % 70, seq + 1))
        assert span is not None
        seq = span[1]
    if policy is SyncPolicy.GROUP:
        spool.sync()
    sys.stdout.write(f"{spool.safe_seq}\n")
    sys.stdout.flush()
