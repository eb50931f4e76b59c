"""Agent to forwarder over a real Unix socket: acknowledged means kept, once, through kill -9 on either side of the sync."""

import asyncio
import math
import stat

import pytest

from farmiq.device.handover import MESSAGE_BYTES_MAX, ChannelName, Hello, Position, Refused, Row, Stored, Welcome
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.delivery import deliver
from farmiq.device.node_agent.health import Health
from farmiq.kit.lifecycle import Lifetime
from farmiq.spool import Limits, Spool
from integration.device.node_world import BOOT, CHANNELS, NOON_US, Node, connected, is_running, rows
from support.service_process import Death
from support.waiting import eventually

HELLO = Hello(BOOT, CHANNELS)


async def test_samples_are_kept_and_the_next_greeting_says_how_far(node: Node) -> None:
    with node.forwarder():
        async with connected(node) as agent:
            assert await agent.say(HELLO) == Welcome(None)
            assert await agent.hand_over(rows(1, 5)) == Stored(1)
        async with connected(node) as agent:
            assert await agent.say(HELLO) == Welcome(Position(5000, 1))
            assert await agent.hand_over(rows(4, 8)) == Stored(1)
    assert node.kept() == [float(n) for n in range(1, 9)]


@pytest.mark.parametrize(
    "dies",
    [
        ("farmiq.spool.disk:sync_data", "before", 2),
        ("farmiq.spool.disk:sync_data", "after", 2),
        ("farmiq.device.node_forwarder.recorder:Recorder.record", "before", 3),
        ("farmiq.device.node_forwarder.recorder:Recorder.record", "after", 2),
        ("farmiq.device.node_forwarder.intake:_say", "before", 2),
        ("farmiq.device.node_forwarder.intake:_say", "after", 3),
    ],
)
async def test_a_forwarder_killed_around_its_sync_keeps_every_sample_once(node: Node, dies: Death) -> None:
    """The agent's own code offers again what was not answered. What it counts as captured is on the disk, exactly once."""
    life, backlog = Lifetime("node-agent"), Backlog(10_000)
    delivery = asyncio.create_task(deliver(life, str(node.socket), HELLO, backlog, Health(backlog.news)))
    given = 0
    with node.forwarder(dies) as forwarder:
        while is_running(forwarder):
            backlog.add(rows(given + 1, given + 10))
            given += 10
            captured = backlog.captured

            async def went_on(before: int = captured) -> bool:
                return backlog.captured > before or not is_running(forwarder)

            await eventually(went_on, what="an answer or the end of the forwarder")
        forwarder.wait_for_death()
    with node.forwarder():
        backlog.add(rows(given + 1, given + 10))
        given += 10

        async def all_captured() -> bool:
            return len(backlog) == 0

        await eventually(all_captured, what="everything to be handed over")
        life.stopping.set()
        await delivery
    assert (backlog.captured, backlog.not_captured) == (given, 0)
    assert node.kept() == [float(n) for n in range(1, given + 1)]


async def test_only_owner_and_group_may_connect(node: Node) -> None:
    with node.forwarder():
        async with connected(node, HELLO):
            assert stat.S_IMODE(node.socket.stat().st_mode) == 0o660


BAD_ROWS: dict[str, list[Row]] = {
    "not a number": [(NOON_US, 1, 0, 2, math.nan)],
    "unknown channel": [(NOON_US, 1, 2, 2, 1.0)],
    "backwards": [(NOON_US, 2, 0, 2, 1.0), (NOON_US, 1, 0, 2, 1.0)],
    "twice": [(NOON_US, 1, 0, 2, 1.0), (NOON_US, 1, 0, 2, 1.0)],
}


@pytest.mark.parametrize("name", BAD_ROWS)
async def test_samples_that_could_never_be_sent_on_are_refused_whole_and_the_next_are_taken(
    node: Node, name: str
) -> None:
    with node.forwarder():
        async with connected(node, HELLO) as agent:
            assert isinstance(await agent.hand_over(BAD_ROWS[name]), Refused)
        async with connected(node, HELLO) as agent:
            assert await agent.hand_over(rows(1, 2)) == Stored(1)
    assert node.kept() == [1.0, 2.0]


@pytest.mark.parametrize(
    "message",
    [b"\x00\x00\x00\x03abc", (MESSAGE_BYTES_MAX + 1).to_bytes(4, "big"), b"\x00\x00\x00\x01\xc0"],
    ids=["garbage", "too long", "nil"],
)
async def test_whoever_does_not_speak_the_protocol_is_told_so_and_others_are_served(node: Node, message: bytes) -> None:
    with node.forwarder():
        async with connected(node) as agent:
            assert isinstance(await agent.say_bytes(message), Refused)
        async with connected(node, HELLO) as agent:
            assert await agent.hand_over(rows(1, 2)) == Stored(1)


async def test_a_channel_that_the_edge_would_refuse_is_refused_at_the_greeting(node: Node) -> None:
    with node.forwarder():
        async with connected(node) as agent:
            assert isinstance(await agent.say(Hello(BOOT, [ChannelName("batch", "C", "t1")])), Refused)


async def test_a_second_forwarder_on_the_same_spool_does_not_start(node: Node) -> None:
    with node.forwarder():
        async with connected(node, HELLO) as agent:
            with node.forwarder() as second:

                async def has_given_up() -> bool:
                    return "SpoolLocked" in second.log_text()

                await eventually(has_given_up, what="the second forwarder to give up")
            assert await agent.hand_over(rows(1, 2)) == Stored(1)


async def test_the_real_agent_keeps_sampling_while_the_forwarder_is_killed_and_started_again(node: Node) -> None:
    node.variables["SAMPLE_INTERVAL_MS"] = "20"
    with node.agent():
        with node.forwarder(("farmiq.spool.disk:sync_data", "before", 10)) as forwarder:
            forwarder.wait_for_death()
        with node.forwarder(("farmiq.spool.disk:sync_data", "after", 20)) as forwarder:
            forwarder.wait_for_death()
    spool = Spool(node.spool_folder, Limits())
    frames = list(spool.reader().frames())
    places = [(frame.monotonic_us, frame.channel) for frame in frames]
    assert len(frames) >= 29 * 5
    assert places == sorted(set(places))
    assert len({frame.channel for frame in frames}) == 5
    assert spool.losses.ranges() == []
    spool.close()
