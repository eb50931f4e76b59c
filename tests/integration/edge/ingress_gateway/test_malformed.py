"""A thousand kinds of malformed message among good ones, through a real broker into a real gateway."""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from uuid import uuid4

from farmiq.contracts.ack import NOT_NOW
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.handlers import ingest
from farmiq.edge.ingress_gateway.store import KEPT_BYTES_MAX
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.gateway import (
    SERVICE,
    Crowd,
    Ears,
    as_sent,
    assert_exactly_once,
    environment,
    register,
    stats,
    until_rows,
    wait_until_ready,
)
from support.malformed import PACKET_BYTES_MAX, Malformed, malformed_messages, undeliverable_messages
from support.mosquitto import Broker
from support.paho_client import Client
from support.service_process import ServiceProcess, service_process
from support.telemetry import NOW, batch_message, raw_message, reading_message
from support.waiting import eventually, wait_for

GOOD_EVERY = 5
"""After this many bad messages comes a good one."""


async def register_those_of_the_cases(pool: Pool) -> None:
    await register(pool, "node-1", "revoked-1")
    async with pool.acquire() as connection:
        await devices.revoke(connection, "revoked-1")


async def kept_reasons(pool: Pool) -> dict[tuple[str, bytes], str]:
    rows = await pool.fetch("SELECT topic, payload, payload_size_bytes, reason FROM ingress_rejected")
    assert all(len(row["payload"]) == min(row["payload_size_bytes"], KEPT_BYTES_MAX) for row in rows)
    reasons = {(row["topic"], row["payload"]): row["reason"] for row in rows}
    assert len(reasons) == len(rows), "a message was kept twice"
    return reasons


def reasons_of(cases: Iterable[Malformed]) -> dict[tuple[str, bytes], str]:
    return {(case.topic, case.payload[:KEPT_BYTES_MAX]): case.code for case in cases}


async def all_are_judged(gateway: ServiceProcess, count: int) -> bool:
    return (await asyncio.to_thread(stats, gateway))["rejected"] == count


async def test_a_thousand_kinds_of_malformed_message_are_kept_with_their_reason_and_the_good_ones_between_are_stored(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    await register_those_of_the_cases(edge_pool)
    every = malformed_messages()
    # An empty message says nothing: the gateway passes it over, as it is how a message that the broker retained is removed.
    bad = [case for case in every if case.payload]
    final = [case for case in bad if case.code not in NOT_NOW]
    assert len(every) > len(bad) > len(final) >= 1000
    stream, readings = uuid4(), [new_id() for _ in range(len(bad) // GOOD_EVERY // 2)]
    good = [
        message
        for number, event_id in enumerate(readings, start=1)
        for message in (reading_message(1.0, event_id=event_id), batch_message(stream, number * 3 - 2, number * 3))
    ]
    last_seq = 3 * len(readings)
    mixed = [(case.topic, case.payload) for case in every]
    for number, message in enumerate(as_sent(good), start=1):
        mixed.insert(number * (GOOD_EVERY + 1) - 1, message)
    # All of them come from one device, and housekeeping may come by meanwhile.
    environ = environment(edge_url, mosquitto, INGRESS_REJECTED_ROWS_PER_DEVICE_MAX="10000")
    with service_process(SERVICE, environ, run_folder, tmp_path / "first.log") as gateway:
        await asyncio.to_thread(wait_until_ready, gateway)
        async with Crowd(mosquitto, 4) as crowd, Ears(mosquitto) as ears:
            await crowd.publish(mixed)
            await ears.until_told({stream: last_seq}, readings)
            await until_rows(edge_pool, "ingress_rejected", len(final))
            await eventually(partial(all_are_judged, gateway, len(bad)), 60.0, "all of them to be judged")
        kept = await kept_reasons(edge_pool)
        assert {said: code for said, code in kept.items() if code not in NOT_NOW} == reasons_of(final)
        put_off = {said: code for said, code in kept.items() if code in NOT_NOW}
        assert put_off, "a person sees that there is such a device"
        assert put_off.items() <= reasons_of(bad).items()
        assert len(put_off) < (len(bad) - len(final)) / 4, "what comes again and again fills no table"
        await assert_exactly_once(edge_pool, stream, last_seq)
        stored = await edge_pool.fetch("SELECT id FROM telemetry_raw WHERE stream_id IS NULL ORDER BY id")
        assert [row["id"] for row in stored] == sorted(readings)
        taken = await asyncio.to_thread(stats, gateway)
        assert (taken["messages_received"], taken["rejected"], taken["duplicates"]) == (
            len(mixed) - len(every) + len(bad),
            len(bad),
            0,
        )
        assert {line["level"] for line in gateway.log_lines()} == {"info", "warning"}
        gateway.kill()
    # Each was acknowledged towards the broker: the next gateway of that name finds nothing waiting for it.
    with service_process(SERVICE, environ, run_folder, tmp_path / "second.log") as gateway:
        await asyncio.to_thread(wait_until_ready, gateway)
        async with Crowd(mosquitto, 1) as crowd:
            await crowd.publish(as_sent([reading_message(2.0)]))
            await until_rows(edge_pool, "telemetry_raw", last_seq + len(readings) + 1)
        taken = await asyncio.to_thread(stats, gateway)
        assert (taken["messages_received"], taken["rejected"]) == (1, 0)


async def test_what_a_broker_should_have_kept_back_is_refused_all_the_same(edge_pool: Pool) -> None:
    await register_those_of_the_cases(edge_pool)
    bad = undeliverable_messages()
    stream = uuid4()
    messages = [raw_message(case.topic, case.payload) for case in bad]
    (outcome,) = await ingest(edge_pool, [*messages, batch_message(stream, 1, 5)], NOW)
    assert [refusal.code for refusal in outcome.refusals] == [case.code for case in bad]
    await assert_exactly_once(edge_pool, stream, 5)
    kept = await edge_pool.fetch("SELECT reason, payload_size_bytes FROM ingress_rejected")
    assert sorted(map(tuple, kept)) == sorted((case.code, len(case.payload)) for case in bad)


async def test_a_packet_larger_than_the_broker_allows_costs_its_sender_the_connection_and_nobody_else(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    await register(edge_pool)
    good = reading_message(1.0)
    with service_process(SERVICE, environment(edge_url, mosquitto), run_folder, tmp_path / "gateway.log") as gateway:
        await asyncio.to_thread(wait_until_ready, gateway)
        clumsy = await asyncio.to_thread(Client, mosquitto.url("node-1"), "node-1")
        clumsy.paho.publish(good.topic, b"x" * (PACKET_BYTES_MAX + 1), qos=1)
        await asyncio.to_thread(wait_for, lambda: clumsy.disconnects > 0, 20.0, "the broker to throw it out")
        clumsy.paho.loop_stop()
        async with Crowd(mosquitto, 1) as crowd:
            # As long as the broker lets pass, and good: spaces between the words of JSON mean nothing.
            largest = good.payload.ljust(PACKET_BYTES_MAX - len(good.topic) - 16)
            await crowd.publish([(good.topic, largest)])
            await until_rows(edge_pool, "telemetry_raw", 1)
        assert (await asyncio.to_thread(stats, gateway))["rejected"] == 0
