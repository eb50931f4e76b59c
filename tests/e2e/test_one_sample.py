"""One sample, hop by hop, as ARCHITECTURE.md tells it: where it is durable now, who has been told, and where it is not yet.

The service behind each hop is stopped, so that the sample stays there to be looked at, and goes on when it is let go."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from e2e.farm import Farm, Tier
from farmiq.spool import Limits, Spool
from support.waiting import wait_for


@dataclass(frozen=True)
class OneSample:
    stream_id: UUID
    seq: int
    metric: str
    value: float


@pytest.fixture
def hold() -> Iterator[ExitStack]:
    """Whatever a failed test still holds stopped is let go."""
    with ExitStack() as held:
        yield held


def test_one_sample_is_found_at_each_hop_on_its_way_to_the_cloud(farm: Farm, hold: ExitStack, tmp_path: Path) -> None:
    before_cloud = hold.enter_context(ExitStack())
    before_outbox = hold.enter_context(ExitStack())
    before_edge = hold.enter_context(ExitStack())
    for stack, service in (
        (before_cloud, "cloud-telemetry-service"),
        (before_outbox, "edge-sync-forwarder"),
        (before_edge, "edge-ingress-gateway"),
    ):
        stack.enter_context(farm.stopped(service))

    # Hops 1 to 3: on the node's disk, and nowhere else that counts.
    sample = captured_sample(farm, tmp_path)
    assert rows_of(farm, "edge", sample) == []
    assert farm.node()["last_acked_seq"] < sample.seq

    # Hop 4: in the edge's database, with its outbox row, and only then the node is told.
    before_edge.close()
    assert wait_for(lambda: rows_of(farm, "edge", sample)) == [(sample.metric, sample.value)]
    event_id = pack_of(farm, sample)
    wait_for(lambda: farm.node()["last_acked_seq"] >= sample.seq, what="the node to be told")
    assert farm.fetch("cloud", "SELECT 1 FROM ingest_dedupe WHERE event_id = $1", event_id) == []

    # Hops 5 and 6: accepted by the cloud, which has it on the bus and not in its table yet.
    before_outbox.close()
    wait_for(lambda: outbox_status(farm, event_id) == "acked", what="the outbox row to be acknowledged")
    assert farm.fetch("cloud", "SELECT 1 FROM ingest_dedupe WHERE event_id = $1", event_id)
    assert rows_of(farm, "cloud", sample) == []

    # Hop 7. The consumer dies with all that it had been given, so what arrives now comes out of the queue.
    consumer = farm.child("cloud-telemetry-service").pid
    assert consumer is not None
    os.kill(consumer, signal.SIGKILL)
    assert wait_for(lambda: rows_of(farm, "cloud", sample), 60) == [(sample.metric, sample.value)]


def captured_sample(farm: Farm, folder: Path) -> OneSample:
    """A sample captured from now on, read from a copy of the node's disk: what a restart after a power cut would find."""
    now = farm.node()["last_captured_seq"]
    seq = int(wait_for(lambda: (last := farm.node()["last_captured_seq"]) > now and last, what="a new sample"))
    spool = Spool(Path(shutil.copytree(farm.spool_folder, folder / "spool")), Limits())
    try:
        run = spool.reader().read(seq - 1, 1)
    finally:
        spool.close()
    assert run is not None
    (frame,) = run.frames
    return OneSample(run.header.stream_id, frame.seq, run.header.channels[frame.channel].metric, frame.value)


def rows_of(farm: Farm, tier: Tier, sample: OneSample) -> list[tuple[str, float]]:
    rows = farm.fetch(
        tier,
        "SELECT metric_type, metric_value FROM telemetry_raw WHERE stream_id = $1 AND seq = $2",
        sample.stream_id,
        sample.seq,
    )
    return [(row["metric_type"], row["metric_value"]) for row in rows]


def pack_of(farm: Farm, sample: OneSample) -> UUID:
    """The outbox row that carries the sample. It stands there since the commit that stored it, and nobody has sent it."""
    (row,) = farm.fetch(
        "edge",
        """SELECT id, status FROM sync_outbox
            WHERE payload_json ->> 'stream_id' = $1
              AND $2 >= (payload_json ->> 'seq0')::bigint
              AND $2 < (payload_json ->> 'seq0')::bigint + jsonb_array_length(payload_json -> 'v')""",
        str(sample.stream_id),
        sample.seq,
    )
    assert row["status"] in ("pending", "claimed")
    event_id: UUID = row["id"]
    return event_id


def outbox_status(farm: Farm, event_id: UUID) -> str:
    (row,) = farm.fetch("edge", "SELECT status FROM sync_outbox WHERE id = $1", event_id)
    return str(row["status"])
