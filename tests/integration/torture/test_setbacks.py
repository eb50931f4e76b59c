"""A node's spool is set back: the folder is the earlier one, and the ledger says what was on that disk alone."""

import asyncio
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from farmiq.kit.clock import Clock
from farmiq.spool import Limits, Spool
from farmiq.stack.home import Home
from farmiq.torture.farm import Farm
from farmiq.torture.ledger import LedgerWriter, SetBack, read_ledger
from farmiq.torture.node import Node
from farmiq.torture.setbacks import copy_spool, put_back
from farmiq.torture.telling import Login
from support.waiting import eventually

NODE: Final = "torture-2"
FORWARDER: Final = f"forwarder-{NODE}"
RATE: Final = 800.0

pytestmark = pytest.mark.timeout(180)


def farm_of(home: Path, edge_url: str) -> Farm:
    """With two nodes whose broker is nowhere, so that all they have is on their disks."""
    farm = Farm(Home(home), 2, Clock())
    farm.home.create()
    farm.folder.mkdir()
    farm.environment["EDGE_DATABASE_URL"] = edge_url
    for node in farm.nodes:
        farm.logins[node] = Login(
            tenant_id="demo", farm_id="f", barn_id="b", device_id=node, mqtt_url="mqtt://127.0.0.1:9", http_token="t"
        )
    return farm


@pytest.mark.parametrize("at_the_edge", [1, 1_000_000])
async def test_what_was_stored_since_the_copy_and_is_not_at_the_edge_is_written_down(
    edge_url: str, tmp_path: Path, at_the_edge: int
) -> None:
    connection = await asyncpg.connect(edge_url)
    await connection.execute(
        """INSERT INTO streams (stream_id, tenant_id, farm_id, barn_id, device_id, received)
           VALUES (gen_random_uuid(), 'demo', 'f', 'b', $1, int8multirange(int8range(1, $2)))""",
        NODE, at_the_edge + 1,
    )  # fmt: skip
    await connection.close()
    farm = farm_of(tmp_path, edge_url)
    farm.start_nodes()
    ledger, faults = LedgerWriter(farm.folder / "ledger.jsonl"), LedgerWriter(farm.folder / "bus.jsonl")
    node = Node(NODE, farm.home.forwarder_socket(NODE), RATE, ledger, Clock())
    feeding = asyncio.create_task(node.run())

    async def has_stored(more_than: int) -> bool:
        return node.samples.stored > more_than

    try:
        await eventually(lambda: has_stored(0))
        stored_then = await copy_spool(farm, FORWARDER, farm.folder / "copy")
        await eventually(lambda: has_stored(stored_then))
        await put_back(farm, FORWARDER, farm.folder / "copy", stored_then, faults)
        node.finish()
        await feeding
    finally:
        feeding.cancel()
        for keeper in farm.keepers.values():
            await keeper.stop()
        for disk in farm.disks.values():
            disk.unmount()
        ledger.close()
        faults.close()
    lines = list(read_ledger([farm.folder / "bus.jsonl"]))
    gone = {n for line in lines if isinstance(line, SetBack) for n in range(line.first, line.last + 1)}
    spool = Spool(farm.home.spool_folder(NODE), Limits())
    kept = spool.synced_seq
    spool.close()
    assert lines  # whether or not anything is gone: the judge has to know that it was set back
    if at_the_edge > node.samples.taken:
        assert not gone
        assert kept <= node.samples.stored  # the copy may hold more than its node was told of
    else:
        assert 0 < len(gone) <= node.samples.stored
        assert kept + len(gone) >= node.samples.stored
