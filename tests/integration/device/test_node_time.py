"""A node whose clock was never set: its backlog is corrected by the edge's time before it is sent."""

import time
from pathlib import Path

from farmiq.contracts.timestamps import to_us
from farmiq.device.boot import boot_id, boottime_us
from farmiq.device.handover import Hello, Row, Stored
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Pool
from integration.device.node_world import CHANNELS, Edge, Node, connected
from support.gateway import SERVICE, assert_all_agree, environment, register, until_rows
from support.mosquitto import Broker
from support.service_process import service_process
from support.waiting import eventually

SINCE_1970_US = 7_000_000
HELLO = Hello(boot_id(), CHANNELS)


def unset_rows(values: range, quality: int = 0) -> list[Row]:
    """Read just now, on a clock that began in 1970 when the machine started."""
    since_us = boottime_us() - len(values) * 1000
    return [
        (SINCE_1970_US + since_us + at * 1000, since_us + at * 1000, 0, quality, float(value))
        for at, value in enumerate(values)
    ]


async def test_a_backlog_of_a_clock_that_was_never_set_is_sent_with_its_correction(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    mosquitto.kill()
    began_us = to_us(Clock().now())
    with node.forwarder():
        async with connected(node, HELLO) as agent:
            assert await agent.hand_over(unset_rows(range(1, 801))) == Stored(1)
            ended_us = to_us(Clock().now())
            mosquitto.start()
            async with Edge.listening(mosquitto.url("edge")) as edge:
                edge.time_quality = 2
                stream_id = await edge.until_heard(1, 800)
                assert all(isinstance(batch.time_correction, list) for batch in edge.batches)
                for batch in edge.batches:
                    assert max(batch.t) < 10 * 365 * 86_400_000_000
                    assert all(began_us - 2_000_000 < at < ended_us + 1_000_000 for at in batch.occurred_us)
                await edge.acknowledge(stream_id, 800, HELLO.boot_id)
    assert (node.spool_folder / "anchors.json").exists()


async def test_an_edge_that_knows_no_time_requests_gets_the_samples_as_they_are(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    with node.forwarder():
        async with connected(node, HELLO) as agent, Edge.listening(mosquitto.url("edge")) as edge:
            rows = unset_rows(range(1, 11))
            assert await agent.hand_over(rows) == Stored(1)
            await edge.until_heard(1, 10)
            assert [batch.t for batch in edge.batches] == [[row[0] for row in rows]]
            assert not any(isinstance(batch.time_correction, list) for batch in edge.batches)


async def test_a_node_with_a_good_clock_asks_nothing_and_sends_no_byte_more(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    now_us, since_us = time.time_ns() // 1000, boottime_us()
    rows: list[Row] = [(now_us + at, since_us + at, 0, 2, float(at)) for at in range(1, 11)]
    with node.forwarder():
        async with connected(node, HELLO) as agent, Edge.listening(mosquitto.url("edge")) as edge:
            edge.time_quality = 2
            assert await agent.hand_over(rows) == Stored(1)
            await edge.until_heard(1, 10)
            seen = len(edge.states)

            async def has_said_more() -> bool:
                return len(edge.states) > seen

            await eventually(has_said_more, what="another status")
            assert not any(status.time_request for status in edge.states)
            assert not any(isinstance(batch.time_correction, list) for batch in edge.batches)


async def test_a_node_that_woke_up_in_1970_is_stored_at_the_right_time_though_it_dies_with_the_edges_response(
    connected_node: Node, edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    """The real gateway. The forwarder is killed between the response and its anchor's first sync, and its agent does not come
    back: what it left is corrected all the same."""
    await register(edge_pool)
    node = connected_node
    mosquitto.kill()
    began_us = to_us(Clock().now())
    with node.forwarder(("farmiq.device.node_forwarder.node_time:NodeTime.take", "after", 1)) as forwarder:
        async with connected(node, HELLO) as agent:
            assert await agent.hand_over(unset_rows(range(1, 2001))) == Stored(1)
            ended_us = to_us(Clock().now())
            mosquitto.start()
            environ = environment(edge_url, mosquitto, EDGE_CLOCK_IS_TRUSTED="true")
            with service_process(SERVICE, environ, run_folder, tmp_path / "gateway.log"):
                forwarder.wait_for_death()
                with node.forwarder():
                    await until_rows(edge_pool, "telemetry_raw", 2000)
    rows = await edge_pool.fetch("SELECT occurred_at, device_occurred_at, time_quality FROM telemetry_raw")
    assert {row["time_quality"] for row in rows} == {3}
    assert max(to_us(row["device_occurred_at"]) for row in rows) < 10 * 365 * 86_400_000_000
    assert all(began_us - 3_000_000 < to_us(row["occurred_at"]) < ended_us + 1_000_000 for row in rows)
    await assert_all_agree(edge_pool)
