"""A disk that fills up, on a real broker and database: devices keep what there is no room for, and it comes by itself later."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.torture.disks import SIZE_BYTES, SmallDisk
from support.acked_device import Device
from support.gateway import SERVICE, Crowd, Ears, as_sent, ask, assert_all_agree, environment, register
from support.mosquitto import Broker
from support.service_process import ServiceProcess, service_process
from support.telemetry import HERE, NEIGHBOUR, batch_message, loss_message, reading_message
from support.waiting import eventually

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path / "edge")
    if not small.mount():
        pytest.skip("this user may not mount a tmpfs")
    yield small
    small.unmount()


def limited(edge_url: str, mosquitto: Broker, disk: SmallDisk) -> dict[str, str]:
    more = {"EDGE_DATA_DIR": str(disk.path), "EDGE_DISK_FLOOR_PERCENT": "20"}
    return environment(edge_url, mosquitto, **more)


def fill_all_but(disk: SmallDisk, free_bytes: int) -> None:
    descriptor = os.open(disk.path / "half", os.O_WRONLY | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, SIZE_BYTES - free_bytes)
    os.close(descriptor)


async def until_disk(gateway: ServiceProcess, state: str) -> None:
    async def is_so() -> bool:
        _, answer = await asyncio.to_thread(ask, gateway, "/api/v1/ingress/limits")
        return bool(answer["disk"] == state)

    await eventually(is_so, 30.0, f"the disk to be {state}")


async def test_below_the_floor_devices_keep_their_data_and_repetitions_are_answered(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path, disk: SmallDisk
) -> None:
    await register(edge_pool, HERE.device_id, NEIGHBOUR.device_id)
    with service_process(SERVICE, limited(edge_url, mosquitto, disk), run_folder, tmp_path / "gateway.log") as gateway:
        async with Ears(mosquitto) as ears, Device(mosquitto) as node:
            reading, lost, kept = new_id(), new_id(), new_id()
            await node.send_until_acked(10)
            await node.send_message(reading_message(1.0, event_id=reading))
            await ears.until_told({}, [reading])

            disk.fill()
            await until_disk(gateway, "full")
            marks = ears.acked.copy()
            ears.acked.clear()
            ears.told.clear()
            await node.send(11, 20)
            await node.send_message(reading_message(2.0, event_id=kept))
            # Behind both of these: a batch and a reading that are here already, and a loss, which says what is going on.
            await node.send(1, 10)
            await node.send_message(reading_message(1.0, event_id=reading))
            await node.send_message(loss_message(node.stream, 21, 25, event_id=lost))
            await ears.until_told({node.stream: 10}, [reading, lost])
            assert ears.acked == marks
            assert ears.told == {reading: {"duplicate"}, lost: {"stored"}}
            assert ears.retry_after["iot/node-1/ack"] > 0
            assert await edge_pool.fetchval("SELECT count(*) FROM telemetry_raw") == 11
            _, answer = await asyncio.to_thread(ask, gateway, "/api/v1/ingress/limits?device_id=node-1")
            assert [(one["device_id"], one["messages"], one["reason"]) for one in answer["limited"]] == [
                ("node-1", 2, "disk")
            ]

            disk.free()
            await node.send_until_acked(25)
            await node.send_message(reading_message(2.0, event_id=kept))
            await ears.until_told({}, [kept])
    assert await edge_pool.fetchval("SELECT count(*) FROM telemetry_raw") == 27
    assert await edge_pool.fetchval("SELECT count(*) FROM ingress_rejected") == 0
    await assert_all_agree(edge_pool)


async def test_above_the_floor_only_those_are_stopped_that_sent_more_than_their_part(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path, disk: SmallDisk
) -> None:
    await register(edge_pool, HERE.device_id, NEIGHBOUR.device_id)
    with service_process(SERVICE, limited(edge_url, mosquitto, disk), run_folder, tmp_path / "gateway.log") as gateway:
        async with Ears(mosquitto) as ears, Crowd(mosquitto, 1) as crowd, Device(mosquitto) as node:
            heavy = uuid4()
            await crowd.publish(
                as_sent(batch_message(heavy, first, first + 99, NEIGHBOUR) for first in range(1, 2000, 100))
            )
            await node.send_until_acked(10)
            await ears.until_told({heavy: 2000}, [])

            fill_all_but(disk, SIZE_BYTES * 3 // 10)
            await until_disk(gateway, "low")
            await crowd.publish(as_sent([batch_message(heavy, 2001, 2100, NEIGHBOUR)]))
            await node.send(11, 20)
            await node.until_acked(20)

            async def is_told_to_wait() -> bool:
                return "iot/node-2/ack" in ears.retry_after

            await eventually(is_told_to_wait, 30.0, "the device that sent the most to be told to wait")
            assert "iot/node-1/ack" not in ears.retry_after
            assert await edge_pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE device_id = 'node-2'") == 2000
