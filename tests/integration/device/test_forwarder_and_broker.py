"""Forwarder to a real broker: nothing is let go of but by the edge's word."""

import json
from typing import Any
from uuid import UUID

from farmiq.device.handover import Hello, Stored
from farmiq.device.node_forwarder.window import SAMPLES_MIN
from integration.device.node_world import BOOT, CHANNELS, Edge, Node, connected, rows
from support.mosquitto import Broker
from support.waiting import eventually

HELLO = Hello(BOOT, CHANNELS)
EPOCH, RESTORED = UUID(int=501), UUID(int=502)


async def until_status(node: Node, **expected: object) -> dict[str, Any]:
    path = node.spool_folder / "status.json"

    async def told() -> dict[str, Any] | None:
        status: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
        return status if all(status.get(name) == value for name, value in expected.items()) else None

    status = await eventually(told, what=f"a status with {expected}")
    assert status is not None
    return status


async def test_samples_arrive_and_are_sent_again_after_a_kill_until_the_edge_has_acknowledged_them(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    async with Edge.listening(mosquitto.url("edge")) as edge:
        with node.forwarder(("farmiq.device.node_forwarder.intake:_say", "after", 4)) as forwarder:
            async with connected(node, HELLO) as agent:
                await agent.hand_over(rows(1, 40))
                await edge.until_heard(1, 40)
                await agent.hand_over(rows(41, 42))
                await agent.hand_over(rows(43, 44))
            forwarder.wait_for_death()
        edge.batches.clear()
        with node.forwarder():
            stream_id = await edge.until_heard(1, 44)
            assert edge.values() == {n: float(n) for n in range(1, 45)}
            assert edge.sequences("replay") == sorted(edge.sequences("replay"))
            await edge.acknowledge(stream_id, 44, EPOCH)
            await until_status(node, last_acked_seq=44)
        edge.batches.clear()
        with node.forwarder():
            async with connected(node, HELLO) as agent:
                assert await agent.hand_over(rows(45, 46)) == Stored(1)

                await edge.until_heard(45, 46)
    assert edge.sequences() == [45, 46]


async def test_the_broker_away_for_a_while_costs_nothing(connected_node: Node, mosquitto: Broker) -> None:
    node = connected_node
    node.variables["NODE_FORWARDER_RESEND_SECONDS"] = "2"  # what went out before the edge had subscribed comes again
    edge_url = mosquitto.url("edge")
    with node.forwarder():
        async with connected(node, HELLO) as agent:
            assert await agent.hand_over(rows(1, 10)) == Stored(1)
            mosquitto.kill()
            assert await agent.hand_over(rows(11, 2000)) == Stored(2)
            mosquitto.start()
            async with Edge.listening(edge_url) as edge:
                assert await agent.hand_over(rows(2001, 2010)) == Stored(3)
                await edge.until_heard(1, 2010)
                assert edge.values() == {n: float(n) for n in range(1, 2011)}
                assert max(batch.count for batch in edge.batches) <= 500


async def test_what_the_edge_does_not_answer_is_sent_again_by_itself(connected_node: Node, mosquitto: Broker) -> None:
    node = connected_node
    node.variables["NODE_FORWARDER_RESEND_SECONDS"] = "1"
    async with Edge.listening(mosquitto.url("edge")) as edge:
        with node.forwarder():
            async with connected(node, HELLO) as agent:
                await agent.hand_over(rows(1, 5))
            await edge.until_heard(1, 5)

            async def heard_again() -> bool:
                return edge.sequences().count(1) >= 3

            await eventually(heard_again, what="the same samples again")


async def test_another_edge_database_gets_everything_again(connected_node: Node, mosquitto: Broker) -> None:
    node = connected_node
    async with Edge.listening(mosquitto.url("edge")) as edge:
        with node.forwarder():
            async with connected(node, HELLO) as agent:
                await agent.hand_over(rows(1, 50))
            stream_id = await edge.until_heard(1, 50)
            await edge.acknowledge(stream_id, 50, EPOCH)
            await until_status(node, last_acked_seq=50)
            edge.batches.clear()
            await edge.acknowledge(stream_id, 20, RESTORED)

            async def heard_again() -> bool:
                return set(edge.sequences()) >= set(range(21, 51))

            await eventually(heard_again, what="what the restored database lacks")
            assert min(edge.sequences()) == 21
            await until_status(node, last_acked_seq=20)


async def test_what_an_absurd_acknowledgement_leaves_open_goes_on_under_a_new_stream(
    connected_node: Node, mosquitto: Broker
) -> None:
    """promise-device-edge 2: from an edge of 0.1.0, which does not say whose samples it has."""
    node = connected_node
    async with Edge.listening(mosquitto.url("edge")) as edge:
        with node.forwarder() as forwarder:
            async with connected(node, HELLO) as agent:
                await agent.hand_over(rows(1, 50))
            stream_id = await edge.until_heard(1, 50)
            await edge.acknowledge(stream_id, 30, EPOCH)
            await until_status(node, last_acked_seq=30)
            edge.batches.clear()
            await edge.acknowledge(stream_id, 10**9, EPOCH)

            async def sent_again() -> bool:
                return set(edge.sequences()) >= set(range(1, 21))

            await eventually(sent_again, what="what was unacknowledged, as a stream of its own")
            assert "stream_begun" in forwarder.log_text()
            assert edge.values() == {n - 30: float(n) for n in range(31, 51)}
            (new,) = {batch.stream_id for batch in edge.batches}
            assert new != stream_id
            await edge.acknowledge(new, 10, EPOCH)
            await until_status(node, last_acked_seq=10, unacked_count=10, former_streams=[str(stream_id)])
    assert node.kept() == [float(n) for n in range(1, 51)]


async def test_what_the_cap_drops_is_told_until_the_edge_has_it(connected_node: Node, mosquitto: Broker) -> None:
    node = connected_node
    node.variables |= {"NODE_FORWARDER_MAX_SPOOL_BYTES": "32768", "NODE_FORWARDER_RESEND_SECONDS": "1"}
    mosquitto.kill()
    with node.forwarder():
        async with connected(node, HELLO) as agent:
            for first in range(1, 2001, 100):
                await agent.hand_over(rows(first, first + 99))
        mosquitto.start()
        async with Edge.listening(mosquitto.url("edge")) as edge:

            async def accounted() -> bool:
                lost = {seq for _, loss in edge.losses for seq in range(loss.first_seq, loss.last_seq + 1)}
                return lost | set(edge.sequences()) == set(range(1, 2001)) and bool(lost)

            await eventually(accounted, what="stored and declared lost to be all that was captured")
            told = {event_id for event_id, _ in edge.losses}
            await edge.acknowledge(edge.batches[0].stream_id, 2000, EPOCH, tuple(told))
            await until_status(node, last_acked_seq=2000)


async def test_the_status_is_retained_and_the_will_says_offline_when_the_forwarder_is_killed(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    with node.forwarder(("farmiq.spool.disk:sync_data", "after", 1)) as forwarder:
        await until_status(node, segments_closed=0)
        async with Edge.listening(mosquitto.url("edge")) as edge:

            async def is_online() -> bool:
                return bool(edge.states) and edge.states[-1].state == "online"

            await eventually(is_online, what="the retained status")
            async with connected(node, HELLO) as agent:
                assert await agent.hand_over(rows(1, 1)) is None
            forwarder.wait_for_death()

            async def is_offline() -> bool:
                return edge.states[-1].state == "offline"

            await eventually(is_offline, what="the will")


async def test_an_edge_that_does_not_answer_gets_the_live_samples_and_no_flood_of_old_ones(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    edge_url = mosquitto.url("edge")
    mosquitto.kill()
    with node.forwarder():
        async with connected(node, HELLO) as agent:
            for first in range(1, 30_001, 5000):
                assert isinstance(await agent.hand_over(rows(first, first + 4999)), Stored)
            mosquitto.start()
            async with Edge.listening(edge_url) as edge:
                await edge.until_heard(1, SAMPLES_MIN)
                await agent.hand_over(rows(30_001, 30_002))
                await edge.until_heard(30_002, 30_002)
                assert max(edge.sequences("replay")) <= SAMPLES_MIN
                await edge.acknowledge(edge.batches[0].stream_id, SAMPLES_MIN, EPOCH)
                await edge.until_heard(SAMPLES_MIN + 1, SAMPLES_MIN + 1)
                await edge.acknowledge(edge.batches[0].stream_id, 30_002, EPOCH)
                status = await until_status(node, last_acked_seq=30_002, replay_state="idle")
    assert status["unacked_count"] == 0
    assert status["runway_seconds"] > 0
    assert status["written_bytes_per_sample"] >= 40


async def test_what_got_lost_on_the_way_is_sent_again_although_the_edge_answers_all_the_time(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    async with Edge.listening(mosquitto.url("edge")) as edge:
        with node.forwarder():
            async with connected(node, HELLO) as agent:
                await agent.hand_over(rows(1, 20))
                stream_id = await edge.until_heard(1, 20)
                await edge.acknowledge(stream_id, 5, EPOCH, received=((11, 20),))
                await edge.until_heard(6, 10, "replay")
                edge.batches.clear()
                taken = 20

                async def comes_again() -> bool:
                    nonlocal taken
                    taken += 1
                    await agent.hand_over(rows(taken, taken))
                    # Everything but 6 to 10 has arrived, and so does every live sample.
                    await edge.acknowledge(stream_id, 5, EPOCH, received=((11, taken),))
                    return set(edge.sequences("replay")) >= set(range(6, 11))

                await eventually(comes_again, 60, "the samples that the edge lacks")
