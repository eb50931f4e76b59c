"""What one sample, one batch and one picture take, in bytes.

Measured with `benchmarks/measure_bytes.py` on PostgreSQL 18 with the edge's own schema and ten channels, on 16 November 2026.
Measure again when a table, an index or a message changes, and write the new figures here.
`tests/integration/sizing/test_measured.py` says when they no longer hold.
"""

from bisect import bisect_left
from typing import Final

from msgspec import Struct

from farmiq.spool import FRAME_BYTES


class ByBatch(Struct, frozen=True):
    """Bytes for one batch, by the number of samples in it; in straight lines between the sizes that were measured."""

    points: tuple[tuple[float, float], ...]

    def of(self, samples: float) -> float:
        sizes = [size for size, _ in self.points]
        place = bisect_left(sizes, samples)
        if place == 0:
            return self.points[0][1]
        if place == len(self.points):
            return self.points[-1][1]
        (low, low_bytes), (high, high_bytes) = self.points[place - 1 : place + 1]
        return low_bytes + (high_bytes - low_bytes) * (samples - low) / (high - low)


SPOOL_BYTES_PER_SAMPLE: Final = FRAME_BYTES
"""Frozen on disk. 40.08 were measured, with the headers of segments of 1 MiB."""
SEGMENT_HEADER_BYTES: Final = 512
"""Of a segment with a few channels: one an hour, or one for each 128 MiB."""
SPOOL_BYTES_BESIDES: Final = 4 * 1024 * 1024 + 80 * 1024
"""What is reserved ahead of the open segment, the loss journal and the marks."""

MQTT_BYTES: Final = ByBatch(((1, 543.6), (10, 1254.3), (50, 2290.1), (500, 13_940.8)))
"""Topic and payload of one message."""

RAW_BYTES_PER_SAMPLE: Final = 325.2
"""`telemetry_raw` with its indexes: 324.8 to 325.2 for batches of 10 to 500 samples, 338.3 for single ones."""
AGGREGATE_BYTES_PER_BUCKET: Final = 694.6
"""`telemetry_agg` with its indexes, updated once a second; 620.2 when it is filled by batches of 500."""
DEDUPE_BYTES: Final = ByBatch(((1, 117.1), (10, 118.8), (50, 125.6), (500, 163.8)))
"""`ingress_dedupe` with its indexes: one row for a message."""
OUTBOX_BYTES: Final = ByBatch(((1, 689.4), (10, 2188.1), (50, 1663.0), (500, 6651.9)))
"""`sync_outbox` with its indexes, acknowledged and vacuumed. PostgreSQL compresses rows above 2 kB: 50 take less than 10."""

REQUEST_BYTES: Final = ByBatch(((1, 62.1), (10, 144.3), (50, 423.1), (500, 3407.9)))
"""One batch's share of a request to the cloud with 100 of them, compressed with zstd."""
REQUEST_BYTES_OF_ONE: Final = ByBatch(((1, 449.0), (10, 578.0), (50, 884.0), (500, 4142.0)))
"""A request to the cloud with a single batch."""
REQUEST_HEAD_BYTES: Final = 412
"""What HTTP writes before the body."""

PICTURE_ROWS_BYTES: Final = 7925.8
"""Rows, indexes and events of one picture that was stored and weighed, in the edge's database."""
PICTURE_STORE_BYTES: Final = 1447.2
"""What SeaweedFS adds to its bytes."""

WAL_BYTES_MAX: Final = 1 << 30
"""`max_wal_size` of the embedded PostgreSQL: its log, at most, while it works."""
