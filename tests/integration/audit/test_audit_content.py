"""Samples of both tiers with the same sequences and other content are found and named, over the HTTP APIs of both."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest
import pytest_asyncio
from msgspec.structs import replace

from farmiq.audit import answers, content
from farmiq.audit.content import DeviceContent, Tiers, read_content
from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.devices import balance_device
from farmiq.audit.findings import Finding
from farmiq.audit.streams import BusRoom
from farmiq.console.neighbours import Neighbours
from farmiq.contracts.telemetry import TelemetryBatch
from farmiq.kit.postgres import Pool
from farmiq.timeseries.accounts import DeviceAccount
from farmiq.timeseries.admission import admit_batches, declare_lost
from farmiq.timeseries.content import BLOCK_BITS
from farmiq.timeseries.samples import StreamBatch
from support.cloud_queries import cloud_api
from support.query_api import TOKEN, query_api
from support.telemetry import HERE, NEIGHBOUR, NOW, batch_of, loss_of

BLOCK = 1 << BLOCK_BITS
EDGE, CLOUD = "edge-telemetry-timeseries", "cloud-telemetry-service"
STREAM = UUID("00000000-0000-7000-8000-0000000000aa")
FORGED_FROM, FORGED_TO = 6041, 6240


class TwoTiers:
    def __init__(self, edge: Pool, cloud: Pool, neighbours: Neighbours) -> None:
        self.pools = {EDGE: edge, CLOUD: cloud}
        self.neighbours = neighbours
        self.notes: list[str] = []

    async def admit(self, service: str, *batches: TelemetryBatch) -> None:
        async with self.pools[service].acquire() as connection, connection.transaction():
            await admit_batches(connection, [StreamBatch(HERE, one) for one in batches], NOW)

    async def admit_both(self, *batches: TelemetryBatch) -> None:
        for service in self.pools:
            await self.admit(service, *batches)

    async def accounts(self, service: str) -> dict[str, DeviceAccount]:
        window = {"from": (NOW - timedelta(days=1)).isoformat(), "to": NOW.isoformat()}
        page = await self.neighbours.get(service, "/api/v1/accounts", answers.AccountPage, tenant_id="demo", **window)
        return {one.device_id: one for one in page.devices}

    async def contents(self, *, is_deep: bool = False) -> dict[str, DeviceContent]:
        cloud, edge = await self.accounts(CLOUD), await self.accounts(EDGE)
        return await read_content(
            self.neighbours, Tiers(EDGE, CLOUD), "demo", None, edge, cloud, is_deep=is_deep, notes=self.notes
        )

    async def content(self, *, is_deep: bool = False) -> DeviceContent:
        return (await self.contents(is_deep=is_deep))["node-1"]

    async def findings(self, *, is_deep: bool = False) -> list[Finding]:
        """What the audit says of the content of node-1."""
        reading = DeviceReading(device_id="node-1", content=await self.content(is_deep=is_deep))
        return balance_device(reading, Situation(tenant_id="demo"), BusRoom(0)).findings


@asynccontextmanager
async def two_tiers(edge: Pool, edge_url: str, cloud: Pool, cloud_url: str) -> AsyncIterator[TwoTiers]:
    async with query_api(edge_url) as here, cloud_api(cloud_url) as there, aiohttp.ClientSession() as session:
        addresses = {EDGE: here._url, CLOUD: there._url}
        yield TwoTiers(edge, cloud, Neighbours(session, addresses, {"edge": TOKEN, "cloud": TOKEN}))


@pytest_asyncio.fixture
async def tiers(edge_pool: Pool, edge_url: str, cloud_pool: Pool, cloud_url: str) -> AsyncIterator[TwoTiers]:
    async with two_tiers(edge_pool, edge_url, cloud_pool, cloud_url) as found:
        yield found


def altered(batch: TelemetryBatch, **columns: Sequence[Any]) -> TelemetryBatch:
    return replace(batch, **{name: list(column) for name, column in columns.items()})


async def test_two_hundred_forged_samples_are_named_with_their_device_sequences_and_time(tiers: TwoTiers) -> None:
    """A second edge claimed coming sequences: coverage is the same at both tiers, and only the cloud has its values."""
    await tiers.admit_both(batch_of(STREAM, 1, 3000), batch_of(STREAM, 3001, 6040))
    claimed = batch_of(STREAM, FORGED_FROM, FORGED_TO)
    await tiers.admit(CLOUD, altered(claimed, v=[-273.0] * 200))
    await tiers.admit_both(batch_of(STREAM, 6000, 6500))
    edge, cloud = await tiers.accounts(EDGE), await tiers.accounts(CLOUD)
    assert edge["node-1"].streams[0].received == cloud["node-1"].streams[0].received == [(1, 6501)]
    (finding,) = await tiers.findings()
    assert (finding.kind, finding.device_id, finding.stream_id) == ("content_differs", "node-1", STREAM)
    assert (finding.first_seq, finding.last_seq, finding.count) == (FORGED_FROM, FORGED_TO, 200)
    assert "farmiq device owners node-1 shows whose it is" in finding.fix
    assert "from 2026-09-21 15:54:01.000000 UTC to 2026-09-21 15:57:20.000000 UTC" in finding.what
    assert "humidity 6041.0 % at 2026-09-21 15:54:01.000000 UTC at the edge" in finding.what
    assert "humidity -273.0 % at 2026-09-21 15:54:01.000000 UTC in the cloud" in finding.what
    assert (await tiers.content()).alike == 6300
    assert [one.kind for one in await tiers.findings(is_deep=True)] == ["content_differs"]


@pytest.mark.parametrize("column", ["t", "v", "c"])
async def test_one_sample_of_another_time_value_or_channel_is_named(tiers: TwoTiers, column: str) -> None:
    batch = batch_of(STREAM, 1, 300)
    values = list(getattr(batch, column))
    values[76] = 1 - values[76] if column == "c" else values[76] + 1
    await tiers.admit(EDGE, batch)
    await tiers.admit(CLOUD, altered(batch, **{column: values}))
    (finding,) = await tiers.findings()
    assert (finding.first_seq, finding.last_seq) == (77, 77)


async def test_two_sequences_that_changed_places_are_named(tiers: TwoTiers) -> None:
    batch = batch_of(STREAM, 1, 300)
    swapped = {}
    for name in ("t", "c", "v"):
        column = list(getattr(batch, name))
        column[10], column[20] = column[20], column[10]
        swapped[name] = column
    await tiers.admit(EDGE, batch)
    await tiers.admit(CLOUD, altered(batch, **swapped))
    assert [(one.first_seq, one.last_seq) for one in await tiers.findings()] == [(11, 11), (21, 21)]


async def test_what_differs_in_very_many_places_is_one_finding(tiers: TwoTiers) -> None:
    batch = batch_of(STREAM, 1, 300)
    await tiers.admit(EDGE, batch)
    await tiers.admit(CLOUD, altered(batch, v=[value + value % 2 for value in batch.v]))
    (finding,) = await tiers.findings()
    assert (finding.first_seq, finding.last_seq, finding.count) == (1, 299, 150)


async def test_outages_losses_and_repetitions_leave_both_tiers_alike(tiers: TwoTiers) -> None:
    lost = loss_of(STREAM, 5000, 5100)
    for service, order in ((EDGE, (5101, 1, 4000, 9000)), (CLOUD, (9000, 1, 5101, 1, 4000))):
        for first in order:
            await tiers.admit(service, batch_of(STREAM, first, min(first + 3999, 3 * BLOCK) if first != 4000 else 4999))
        async with tiers.pools[service].acquire() as connection, connection.transaction():
            await declare_lost(connection, HERE, UUID(int=5), lost)
    assert await tiers.content() == DeviceContent(alike=3 * BLOCK - 101)
    assert await tiers.content(is_deep=True) == DeviceContent(alike=3 * BLOCK - 101)


async def test_what_is_on_its_way_is_compared_as_far_as_both_have_it(tiers: TwoTiers) -> None:
    await tiers.admit(EDGE, batch_of(STREAM, 1, BLOCK + 200))
    await tiers.admit(CLOUD, batch_of(STREAM, 1, BLOCK + 100))
    assert await tiers.content() == DeviceContent(alike=BLOCK + 100)
    forged = batch_of(STREAM, BLOCK + 150, BLOCK + 151)
    await tiers.admit(CLOUD, altered(forged, v=[1.0, 2.0]))
    (finding,) = await tiers.findings()
    assert (finding.first_seq, finding.last_seq) == (BLOCK + 150, BLOCK + 151)


async def test_what_was_stored_before_there_were_digests_is_unknown_and_deep_reads_its_rows(tiers: TwoTiers) -> None:
    await tiers.admit_both(batch_of(STREAM, 1, 100))
    for pool in tiers.pools.values():
        await pool.execute("DELETE FROM stream_content")
    assert await tiers.content() == DeviceContent(unknown=100)
    assert await tiers.content(is_deep=True) == DeviceContent(alike=100)
    await tiers.admit(EDGE, batch_of(STREAM, 101, 200))
    await tiers.admit(CLOUD, altered(batch_of(STREAM, 101, 200), v=[0.5] * 100))
    for is_deep in (False, True):
        (finding,) = await tiers.findings(is_deep=is_deep)
        assert (finding.first_seq, finding.last_seq) == (101, 200)


@pytest.mark.parametrize("service", [EDGE, CLOUD])
async def test_a_row_that_was_changed_after_it_was_stored_is_found_by_a_deep_audit(
    tiers: TwoTiers, service: str
) -> None:
    await tiers.admit_both(batch_of(STREAM, 1, 50))
    await tiers.pools[service].execute("UPDATE telemetry_raw SET metric_value = metric_value + 1 WHERE seq = 33")
    (finding,) = await tiers.findings(is_deep=True)
    tier = service.partition("-")[0]
    assert (finding.kind, finding.tier, finding.first_seq, finding.last_seq) == ("rows_changed", tier, 33, 33)


async def test_what_differs_is_told_also_when_retention_took_the_rows(tiers: TwoTiers) -> None:
    batch = batch_of(STREAM, 1, 50)
    await tiers.admit(EDGE, batch)
    await tiers.admit(CLOUD, altered(batch, v=[0.0] * 50))
    await tiers.pools[EDGE].execute("DELETE FROM telemetry_raw")
    (finding,) = await tiers.findings()
    assert (finding.kind, finding.first_seq, finding.last_seq) == ("content_differs", 1, BLOCK - 1)
    assert "the rows that are still there do not show which samples" in finding.what
    assert (await tiers.content()).alike == 0


async def test_very_many_blocks_that_differ_are_all_told_and_some_are_read(
    tiers: TwoTiers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "BLOCKS_READ_MAX", 2)
    for first in range(0, 4 * BLOCK, 2048):
        part = batch_of(STREAM, max(first, 1), first + 2047)
        await tiers.admit(EDGE, part)
        await tiers.admit(CLOUD, altered(part, v=[-1.0, *part.v[1:]]))
    found = await tiers.findings()
    assert [(one.first_seq, one.last_seq) for one in found] == [
        (1, 1), (2048, 2048), (BLOCK, BLOCK), (BLOCK + 2048, BLOCK + 2048), (2 * BLOCK, 4 * BLOCK - 1),
    ]  # fmt: skip
    assert tiers.notes == ["Of 2 blocks that differ the samples were not read: at most 2 are."]


async def test_devices_of_which_only_one_tier_has_something_are_not_compared(tiers: TwoTiers) -> None:
    await tiers.admit_both(batch_of(STREAM, 1, 50))
    async with tiers.pools[CLOUD].acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(NEIGHBOUR, batch_of(uuid4(), 1, 9))], NOW)
    assert await tiers.contents() == {"node-1": DeviceContent(alike=50)}
