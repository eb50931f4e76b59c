"""What must not get past the forwarder's doors, from either side."""

from uuid import UUID

from farmiq.device.handover import ChannelName, Hello, Refused, Stored
from farmiq.spool import Limits, Spool
from integration.device.node_world import BOOT, CHANNELS, Edge, Node, connected, is_running, rows
from support.mosquitto import Broker
from support.waiting import eventually

HELLO = Hello(BOOT, CHANNELS)
EPOCH, RESTORED = UUID(int=501), UUID(int=502)


async def test_a_second_agent_waits_until_the_first_has_gone(node: Node) -> None:
    """Two at once would store one's samples under the other's channels."""
    other = Hello(BOOT, [ChannelName("ammonia", "ppm", "nh3"), ChannelName("co2", "ppm", "c")])
    with node.forwarder():
        async with connected(node, HELLO) as first:
            assert await first.hand_over(rows(1, 2)) == Stored(1)
            async with connected(node) as second:
                answer = await second.say(other)
                assert isinstance(answer, Refused)
                assert not answer.is_final
            assert await first.hand_over(rows(3, 4)) == Stored(2)
    spool = Spool(node.spool_folder, Limits())
    run = spool.reader().read(2, 10)
    assert run is not None
    assert [channel.metric for channel in run.header.channels] == ["temperature", "humidity"]
    spool.close()


async def test_a_time_that_no_calendar_holds_does_not_stop_the_forwarder_for_good(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    async with Edge.listening(mosquitto.url("edge")) as edge:
        with node.forwarder() as forwarder:
            async with connected(node, HELLO) as agent:
                answer = await agent.hand_over([(10**18, 1, 0, 2, 1.0)])
                assert isinstance(answer, Refused)
                assert answer.is_final
            async with connected(node, HELLO) as agent:
                assert await agent.hand_over(rows(1, 3)) == Stored(1)

            async def heard() -> bool:
                return edge.values() == {1: 1.0, 2: 2.0, 3: 3.0}

            await eventually(heard, what="the samples that are good")
            assert is_running(forwarder)


async def test_an_absurd_word_of_a_new_database_does_not_hide_that_it_is_new(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    async with Edge.listening(mosquitto.url("edge")) as edge:
        with node.forwarder():
            async with connected(node, HELLO) as agent:
                await agent.hand_over(rows(1, 50))

            stream_id = await edge.until_heard(1, 50)
            await edge.acknowledge(stream_id, 50, EPOCH)
            await edge.acknowledge(stream_id, 10**9, RESTORED)
            edge.batches.clear()
            await edge.acknowledge(stream_id, 20, RESTORED)

            await edge.until_heard(21, 50)
            assert min(edge.sequences()) == 21


async def test_after_a_kill_the_edge_is_not_sent_again_what_it_acknowledged_long_before(
    connected_node: Node, mosquitto: Broker
) -> None:
    node = connected_node
    async with Edge.listening(mosquitto.url("edge")) as edge:
        with node.forwarder(("farmiq.spool.marks:_Slots.sync", "after", 2)) as forwarder:
            async with connected(node, HELLO) as agent:
                await agent.hand_over(rows(1, 50))

            stream_id = await edge.until_heard(1, 50)
            await edge.acknowledge(stream_id, 10, EPOCH)
            await edge.acknowledge(stream_id, 50, EPOCH)

            async def has_ended() -> bool:
                return not is_running(forwarder)

            await eventually(has_ended, seconds=30, what="the mark to be stored a second time")
            forwarder.wait_for_death()
        edge.batches.clear()
        with node.forwarder():
            async with connected(node, HELLO) as agent:
                await agent.hand_over(rows(51, 52))

            async def heard_new() -> bool:
                return {51, 52} <= set(edge.sequences())

            await eventually(heard_new, what="the new samples")
    assert edge.sequences() == [51, 52]


async def test_under_the_os_policy_samples_are_acknowledged_before_the_sync(node: Node) -> None:
    node.variables["NODE_FORWARDER_SYNC"] = "os"
    with node.forwarder(("farmiq.spool.disk:sync_data", "before", 1)) as forwarder:
        async with connected(node, HELLO) as agent:
            assert await agent.hand_over(rows(1, 9)) == Stored(1)
            forwarder.wait_for_death()
    assert node.kept() == [float(n) for n in range(1, 10)]
