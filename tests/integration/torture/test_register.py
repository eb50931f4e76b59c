"""The register is changed under a running device, and is afterwards as it was, whatever happens in between."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from farmiq.edge.ingress_gateway import devices
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import prepare
from farmiq.stack.home import Home
from farmiq.timeseries.stream import Origin
from farmiq.torture.farm import Farm
from farmiq.torture.plan import Fault, Kind
from farmiq.torture.register import Register
from support.waiting import eventually

NODE = Origin("demo", "farm-1", "barn-1", "torture-1")
ROW = "SELECT * FROM devices WHERE device_id = 'torture-1'"
ENDLESS = 3600.0


@pytest.mark.parametrize("number", range(4))
async def test_a_device_is_not_registered_meanwhile_and_is_as_before_afterwards(
    edge_url: str, tmp_path: Path, number: int
) -> None:
    farm = Farm(Home(tmp_path), 0, Clock())
    farm.environment["EDGE_DATABASE_URL"] = edge_url
    connection = await asyncpg.connect(edge_url)
    try:
        await prepare(connection)
        await devices.add(connection, NODE, "node", devices.Credential("$7$hash", "token"))
        before = await connection.fetch(ROW)
        register = Register(farm)
        fault = Fault(number, 0.0, Kind.REGISTER, "torture-1", seconds=ENDLESS)
        taken_out = asyncio.create_task(register.take_out(fault))

        async def is_out() -> bool:
            return NODE not in await devices.provisioned(connection, ["torture-1"])

        await eventually(is_out)
        taken_out.cancel()  # the campaign is ended in the middle of it
        with pytest.raises(asyncio.CancelledError):
            await taken_out
        assert await connection.fetch(ROW) == before
        await register.put_back_all()
        assert await connection.fetch(ROW) == before
    finally:
        await connection.close()
