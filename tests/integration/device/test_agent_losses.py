"""The real agent and the real forwarder: what was measured is on the node's disk or in a loss record, once, whoever is away."""

import asyncio
import math

import pytest

from farmiq.device import handover
from farmiq.device.handover import Hello, Stored
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.delivery import deliver
from farmiq.device.node_agent.health import Health
from farmiq.kit.lifecycle import Lifetime
from farmiq.spool import Cause
from integration.device.agent_world import has_logged, logged, on_disk
from integration.device.node_world import BOOT, CHANNELS, Node, rows
from support.service_process import Death, ServiceProcess
from support.waiting import eventually, wait_for


@pytest.fixture
def forgetful_node(node: Node) -> Node:
    """Room for ten readings of the barn: a moment without a forwarder."""
    node.variables |= {"SAMPLE_INTERVAL_MS": "20", "NODE_AGENT_BACKLOG_SAMPLES": "50"}
    return node


def assert_nothing_is_missing(node: Node, agent: ServiceProcess, losses_min: int) -> None:
    """Both have ended. Every sample is a frame or one of a loss record, and every sequence is one of them, once."""
    (ended,) = logged(agent, "sampling_ended")
    frames, losses = on_disk(node)
    assert {loss.cause for loss in losses} == {Cause.NOT_CAPTURED}
    assert len(losses) >= losses_min
    lost = [seq for loss in losses for seq in range(loss.first_seq, loss.last_seq + 1)]
    assert (ended["captured"], ended["not_captured"], ended["waiting"]) == (len(frames), len(lost), 0)
    assert ended["sampled"] == len(frames) + len(lost)
    assert sorted([frame.seq for frame in frames] + lost) == list(range(1, ended["sampled"] + 1))
    places = [(frame.monotonic_us, frame.channel) for frame in frames]
    assert places == sorted(set(places))
    for loss in losses:
        assert loss.first_wall_us is not None
        assert loss.last_wall_us is not None
        before = [frame.wall_us for frame in frames if frame.seq < loss.first_seq]
        after = [frame.wall_us for frame in frames if frame.seq > loss.last_seq]
        assert max(before, default=0) <= loss.first_wall_us <= loss.last_wall_us <= min(after, default=1 << 62)


def test_a_forwarder_away_for_longer_than_the_backlog_holds_leaves_loss_records_and_no_other_hole(
    forgetful_node: Node,
) -> None:
    node = forgetful_node
    with node.agent() as agent:
        wait_for(has_logged(agent, "backlog_overfilled"), what="the backlog to overflow")
        with node.forwarder():
            wait_for(has_logged(agent, "loss_declared"), what="the loss to be declared")
        declared = len(logged(agent, "loss_declared"))
        wait_for(has_logged(agent, "backlog_overfilled", declared + 1), what="the backlog to overflow again")
        with node.forwarder():
            wait_for(has_logged(agent, "loss_declared", declared + 1), what="the second loss to be declared")
            agent.stop()
    assert_nothing_is_missing(node, agent, losses_min=2)


@pytest.mark.parametrize(
    "dies",
    [
        ("farmiq.spool.losses:LossJournal.declare_once", "before", 1),
        ("farmiq.spool.losses:LossJournal.declare_once", "after", 1),
        ("farmiq.device.node_forwarder.recorder:Recorder.give_up", "after", 1),
    ],
)
def test_a_forwarder_killed_around_the_sync_of_a_loss_record_counts_it_once(forgetful_node: Node, dies: Death) -> None:
    node = forgetful_node
    with node.agent() as agent:
        wait_for(has_logged(agent, "backlog_overfilled"), what="the backlog to overflow")
        with node.forwarder(dies) as forwarder:
            forwarder.wait_for_death()
        declared = len(logged(agent, "loss_declared"))
        with node.forwarder():
            wait_for(has_logged(agent, "loss_declared", declared + 1), what="the loss to be declared")
            agent.stop()
    assert_nothing_is_missing(node, agent, losses_min=1)


def test_asked_to_stop_while_the_forwarder_is_away_the_agent_says_what_it_could_not_hand_over(
    forgetful_node: Node,
) -> None:
    with forgetful_node.agent() as agent:
        wait_for(has_logged(agent, "backlog_overfilled"), what="the backlog to overflow")
        assert agent.stop() == 0
    (left,) = logged(agent, "samples_not_captured")
    (ended,) = logged(agent, "sampling_ended")
    assert left["level"] == "error"
    assert ended["captured"] == 0
    assert left["count"] == ended["sampled"] == ended["waiting"] + ended["not_captured"]


HELLO = Hello(BOOT, CHANNELS)


async def handed_over(backlog: Backlog) -> None:
    async def is_told() -> bool:
        return backlog.is_told

    await eventually(is_told, what="everything to be handed over")


async def test_samples_that_are_refused_for_ever_become_a_loss_record_and_the_next_are_taken(node: Node) -> None:
    life, backlog = Lifetime("node-agent"), Backlog(100)
    never = [(wall_us, us, channel, quality, math.nan) for wall_us, us, channel, quality, _ in rows(1, 3)]
    backlog.add(never)
    with node.forwarder():
        delivery = asyncio.create_task(deliver(life, str(node.socket), HELLO, backlog, Health(backlog.news)))
        await handed_over(backlog)
        backlog.add(rows(4, 6))
        await handed_over(backlog)
        life.stopping.set()
        await delivery
    frames, (loss,) = on_disk(node)
    assert (loss.first_seq, loss.last_seq, loss.cause) == (1, 3, Cause.NOT_CAPTURED)
    assert (loss.first_wall_us, loss.last_wall_us) == (never[0][0], never[-1][0])
    assert [(frame.seq, frame.value) for frame in frames] == [(4, 4.0), (5, 5.0), (6, 6.0)]


async def test_whatever_answers_on_the_socket_the_agent_keeps_what_was_not_stored(node: Node) -> None:
    life, backlog = Lifetime("node-agent"), Backlog(100)
    backlog.add(rows(1, 5))
    answers = iter([b"", b"\x00\x00\x00\x01\xc0", b"\xff\xff\xff\xff", handover.pack(Stored(1))])
    answered = asyncio.Event()

    async def strange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handover.read_from_agent(reader)
        answer = next(answers, None)
        writer.write(answer or b"")
        writer.close()
        if answer is None:
            answered.set()

    node.socket.parent.mkdir()
    delivery = asyncio.create_task(deliver(life, str(node.socket), HELLO, backlog, Health(backlog.news)))
    async with await asyncio.start_unix_server(strange, node.socket):
        await asyncio.wait_for(answered.wait(), 20)
    assert (backlog.captured, len(backlog)) == (0, 5)
    with node.forwarder():
        await handed_over(backlog)
        life.stopping.set()
        await delivery
    assert node.kept() == [1.0, 2.0, 3.0, 4.0, 5.0]


async def test_asked_to_stop_the_agent_still_hands_over_to_a_forwarder_that_comes_in_time(node: Node) -> None:
    life, backlog = Lifetime("node-agent"), Backlog(100)
    backlog.add(rows(1, 5))
    life.stopping.set()
    with node.forwarder():
        await deliver(life, str(node.socket), HELLO, backlog, Health(backlog.news), stop_seconds=30.0)
    assert (backlog.captured, len(backlog)) == (5, 0)
    assert node.kept() == [1.0, 2.0, 3.0, 4.0, 5.0]


async def test_asked_to_stop_the_agent_does_not_wait_for_ever(node: Node) -> None:
    life, backlog = Lifetime("node-agent"), Backlog(100)
    backlog.add(rows(1, 5))
    life.stopping.set()
    await deliver(life, str(node.socket), HELLO, backlog, Health(backlog.news), stop_seconds=0.2)
    assert (backlog.captured, len(backlog)) == (0, 5)
