"""The spool of a node of this machine, looked into while it is written."""

from pathlib import Path
from uuid import UUID

import pytest

from farmiq.audit.spools import local_spools, spools_below
from farmiq.audit.streams import StreamReading, TierCoverage, balance_stream
from farmiq.spool import Channel, Sample, Spool

CHANNELS = [Channel("temperature", "C", "t1")]


def fill(folder: Path, samples: int, acked: int, request: pytest.FixtureRequest) -> UUID:
    """Still open, as a forwarder has it."""
    spool = Spool(folder)
    spool.begin(UUID(int=1), CHANNELS)
    spool.append_many([Sample(seq, seq, 0, 2, float(seq)) for seq in range(1, samples + 1)])
    spool.sync()
    spool.acknowledge(acked)
    spool.save_ack()
    request.addfinalizer(spool.close)
    return spool.stream_id


def test_a_spool_tells_what_it_holds_and_what_it_was_told_is_safe(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stream_id = fill(tmp_path / "node-1" / "spool", 50, 20, request)
    (tmp_path / "station-1").mkdir()
    (tmp_path / "node-2" / "spool").mkdir(parents=True)
    folders = dict(spools_below(tmp_path))
    assert list(folders) == ["node-1", "node-2"]
    found, troubles = local_spools(folders)
    node = found["node-1"][stream_id]
    assert (node.captured_seq, node.acked_seq, node.lost) == (50, 20, [])
    assert node.held is not None
    assert node.held[-1][1] == 51
    assert len(troubles) == 1
    assert "node-2" in troubles[0]
    balance = balance_stream(StreamReading(stream_id, node, TierCoverage([(1, 21)]), cloud=TierCoverage([(1, 21)])))
    assert (balance.in_flight, balance.missing) == ({"node_spool": 30}, [])
