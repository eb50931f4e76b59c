"""Rows and pictures after a restore: each tier's own check, which repairs what it finds.

A picture that the store still has and the restored database does not know is taken in again; a row whose picture is gone says so,
and the cloud then asks the edges for it.
"""

from collections import Counter
from typing import Final

from farmiq.backup.tiers import Place
from farmiq.cloud.media_store import integrity as cloud
from farmiq.edge.media_store import integrity as edge
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Connection
from farmiq.kit.s3 import ObjectStore

ANNOUNCED_SECONDS: Final = 900.0
"""How long a restored edge waits for stations to announce the pictures that it found in its object store, before it tells
the cloud of them: an announcement has the time and the session, a key of the store has neither."""


async def reconcile(connection: Connection, place: Place, objects: ObjectStore) -> dict[str, int]:
    """How many of each kind were found and repaired: the words are those of `farmiq media check`."""
    bucket = place.store.media_bucket
    if place.tier == "cloud":
        report = await cloud.check(connection, objects, bucket, clock=Clock(), repair=True, grace_seconds=0.0)
        return {kind: count for kind, count in report.repaired.items() if count}
    found: Counter[str] = Counter()
    check = edge.Check(connection, objects, bucket, is_repairing=True, adopted_wait_seconds=ANNOUNCED_SECONDS)
    async for problem in check.problems(Counter()):
        found[problem.kind] += 1
    return dict(found)
