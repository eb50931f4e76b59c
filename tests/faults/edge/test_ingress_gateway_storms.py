"""Everything ten times, from many publishers, in any order, to one gateway or two, and killed in between: stored once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from farmiq.kit.postgres import Pool
from support.gateway import (
    SERVICE,
    Crowd,
    Ears,
    as_sent,
    assert_all_agree,
    environment,
    register,
    stats,
    until_rows,
    wait_until_ready,
)
from support.mosquitto import Broker
from support.service_process import ServiceProcess, service_process
from support.storm import LOST, READINGS, SAMPLES, Node, nodes, repeated
from support.waiting import wait_for

TIMES = 10
STORED_PER_NODE = SAMPLES + READINGS


def marks(farm: Sequence[Node]) -> dict[UUID, int]:
    return {node.stream: node.last_seq for node in farm}


def events(farm: Sequence[Node]) -> list[UUID]:
    return [event_id for node in farm for event_id in (*node.readings, *node.losses)]


def start(replica: ServiceProcess) -> None:
    replica.start()
    wait_until_ready(replica)


async def assert_stored_once(pool: Pool, farm: Sequence[Node]) -> None:
    await assert_all_agree(pool)
    rows = await pool.fetch("SELECT stream_id, received::text, lost::text FROM streams")
    assert {row["stream_id"]: (row["received"], row["lost"]) for row in rows} == {
        node.stream: (f"{{[1,{SAMPLES + 1})}}", f"{{[{SAMPLES + 1},{SAMPLES + LOST + 1})}}") for node in farm
    }
    readings = await pool.fetch("SELECT id FROM telemetry_raw WHERE seq IS NULL")
    assert sorted(row["id"] for row in readings) == sorted(event for node in farm for event in node.readings)
    losses = await pool.fetch("SELECT event_id FROM stream_losses")
    assert sorted(row["event_id"] for row in losses) == sorted(event for node in farm for event in node.losses)
    distinct = sum(len(node.messages) for node in farm)
    assert await pool.fetchval("SELECT count(*) FROM ingress_dedupe") == distinct
    assert await pool.fetchval("SELECT count(*) FROM ingress_rejected") == 0
    states = await pool.fetch("SELECT device_id, reported_state FROM device_liveness")
    assert {tuple(row) for row in states} == {(node.origin.device_id, "online") for node in farm}


async def test_a_storm_of_duplicates_in_any_order_stores_everything_once_and_tells_every_device(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    farm = nodes(seed=3, count=8)
    await register(edge_pool, *(node.origin.device_id for node in farm))
    storm = repeated(5, farm, TIMES)
    with service_process(SERVICE, environment(edge_url, mosquitto), run_folder, tmp_path / "gateway.log") as gateway:
        await asyncio.to_thread(wait_until_ready, gateway)
        async with Crowd(mosquitto, 8) as crowd, Ears(mosquitto) as ears:
            await crowd.publish(storm)
            await ears.until_told(marks(farm), events(farm))

            def is_all_taken() -> bool:
                return stats(gateway)["messages_received"] == len(storm)

            await asyncio.to_thread(wait_for, is_all_taken, 60.0, "the whole storm to be taken")
            assert ears.acked == marks(farm), "no device is told more than it sent"
            assert {result for results in ears.told.values() for result in results} <= {"stored", "duplicate"}
        await assert_stored_once(edge_pool, farm)
        taken = await asyncio.to_thread(stats, gateway)
        assert taken["samples_stored"] == len(farm) * STORED_PER_NODE
        assert taken["duplicates"] == len(storm) - len(storm) // TIMES
        assert taken["acks_published"] < len(storm) // 2, "one acknowledgement speaks for many messages"


async def test_two_replicas_killed_in_turn_and_together_under_a_storm_store_everything_once(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    """Live and replay of one stream, and its losses, go to either replica, in any order."""
    farm = nodes(seed=13, count=6)
    await register(edge_pool, *(node.origin.device_id for node in farm))
    replicas = [
        ServiceProcess(
            SERVICE, environment(edge_url, mosquitto, f"gateway-{number}"), run_folder, tmp_path / f"gateway-{number}.log"
        )
        for number in (1, 2)
    ]  # fmt: skip
    try:
        for replica in replicas:
            await asyncio.to_thread(start, replica)
        async with Crowd(mosquitto, 6) as crowd, Ears(mosquitto) as ears:
            storm = asyncio.create_task(crowd.publish(repeated(17, farm, TIMES)))
            await until_rows(edge_pool, "ingress_dedupe", 20)
            replicas[1].kill()
            await storm
            await asyncio.to_thread(replicas[1].start)
            storm = asyncio.create_task(crowd.publish(repeated(19, farm, TIMES)))
            await until_rows(edge_pool, "ingress_dedupe", 150)
            for replica in replicas:
                replica.kill()
            await storm
            # What went to a replica that is dead waits for it: nobody sends anything again before they are back.
            for replica in replicas:
                await asyncio.to_thread(start, replica)
            await until_rows(edge_pool, "ingress_dedupe", sum(len(node.messages) for node in farm))
            await assert_stored_once(edge_pool, farm)
            # The acknowledgements of the dead died with them. A node that hears nothing says it again.
            await crowd.publish([message for node in farm for message in as_sent(node.messages)])
            await ears.until_told(marks(farm), events(farm))
            assert ears.acked == marks(farm)
        for replica in replicas:
            assert (await asyncio.to_thread(stats, replica))["messages_received"] > 0, "each has had its share"
            lines = replica.log_lines()
            assert {line["level"] for line in lines} <= {"info", "warning"}
            assert [line for line in lines if "deadlock" in str(line.get("reason"))] == [], (
                "locks are taken in one order"
            )
        await assert_stored_once(edge_pool, farm)
    finally:
        for replica in replicas:
            replica.kill()
