"""The spool of a node of this machine, looked into while it is written."""

from pathlib import Path
from uuid import UUID

import pytest

from farmiq.audit.balance import balance
from farmiq.audit.spools import local_spools, spools_below
from farmiq.audit.streams import BusRoom, StreamReading, TierCoverage, balance_stream
from farmiq.spool import Channel, Sample, Spool
from support.audited_farm import AuditedFarm, account, registered

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
    balance = balance_stream(
        StreamReading(stream_id, node, TierCoverage([(1, 21)]), cloud=TierCoverage([(1, 21)])), BusRoom(0)
    )
    assert (balance.in_flight, balance.missing) == ({"node_spool": 30}, [])


def test_a_spool_that_goes_on_under_a_new_stream_tells_of_each_in_its_own_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "node-1" / "spool"
    spool = Spool(folder)
    spool.begin(UUID(int=1), CHANNELS)
    spool.append_many([Sample(seq, seq, 0, 2, float(seq)) for seq in range(1, 11)])
    old = spool.stream_id
    spool.begin_stream(8)
    spool.append_many([Sample(seq, seq, 0, 2, float(seq)) for seq in range(11, 16)])
    spool.acknowledge(5, stream_id=old)
    spool.acknowledge(2)
    new = spool.stream_id
    spool.close()
    found, troubles = local_spools({"node-1": folder})
    assert troubles == []
    accounts = {
        stream: (one.captured_seq, one.acked_seq, one.held, one.lost) for stream, one in found["node-1"].items()
    }
    assert accounts == {old: (7, 5, [(1, 8)], []), new: (8, 0, [(1, 9)], [])}
    spool = Spool(folder)
    spool.acknowledge(100, stream_id=old)
    spool.close()
    assert list(local_spools({"node-1": folder})[0]["node-1"]) == [new], "what else the edge has of it was never here"


@pytest.mark.parametrize("tenants", [{}, {"node-1": "demo"}, {"node-1": "other"}])
async def test_a_spool_of_a_device_that_the_edge_has_forgotten_is_found(
    tmp_path: Path, request: pytest.FixtureRequest, tenants: dict[str, str]
) -> None:
    """The edge was restored from a backup of before the device was added; the cloud has what it sent until then."""
    fill(tmp_path / "node-1" / "spool", 50, 20, request)
    fill(tmp_path / "node-2" / "spool", 5, 0, request)
    fill(tmp_path / "node-3" / "spool", 5, 5, request)
    farm = AuditedFarm()
    farm.answers["/api/v1/devices"] = lambda asked: {
        "devices": [registered("node-2")] if asked["tenant_id"] == "demo" else []
    }
    farm.answers["cloud-telemetry-service /api/v1/accounts"] = lambda asked: {
        "devices": [account("node-1", 20), account("node-9")] if asked["tenant_id"] == "demo" else [],
        "retired_samples": 0,
    }
    asked = {"spool_folders": dict(spools_below(tmp_path)), "spool_tenants": tenants}
    reading = await farm.read(**asked)
    verdict = balance(reading)
    strangers = [finding for finding in verdict.findings if finding.kind == "not_registered"]
    owner = tenants.get("node-1", "demo")
    assert [(one.device_id, one.count, one.tenant_id) for one in strangers] == [("node-1", 30, owner)]
    assert not verdict.balanced
    assert verdict.elsewhere == (["node-9"] if owner == "demo" else ["node-1", "node-9"])
    assert (await farm.read(**asked, device_id="node-2")).tenants[0].strangers == {}
    named = await farm.read(**asked, tenant_id="demo")
    assert [name for tenant in named.tenants for name in tenant.strangers] == (["node-1"] if owner == "demo" else [])
