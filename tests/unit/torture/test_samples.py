from uuid import UUID

from farmiq.device.handover import Position
from farmiq.torture.ledger import TICK_US
from farmiq.torture.samples import CHANNELS, ROWS_MAX, WAITING_MAX, Samples, wall_us_of

FIRST, SECOND = UUID(int=1), UUID(int=2)


def node() -> Samples:
    return Samples("node-a", FIRST)


def test_every_sample_is_known_by_its_value_in_whatever_message_it_comes() -> None:
    samples = node()
    offer = samples.measure(20, 1_000_000)
    assert offer is not None
    assert (offer.first, offer.last) == (1, 16)  # whole ticks only
    rows = samples.next_rows()
    assert [value for *_, value in rows] == [float(number) for number in range(1, 17)]
    assert [(monotonic, channel) for _, monotonic, channel, *_ in rows] == [
        (tick * TICK_US, channel) for tick in (1, 2) for channel in range(CHANNELS)
    ]
    assert [wall for wall, *_ in rows] == [wall_us_of(offer, number) for number in range(1, 17)]


def test_what_the_forwarder_says_that_it_holds_is_not_offered_again() -> None:
    samples = node()
    samples.measure(16, 0)
    held = samples.boot.number_at(Position(TICK_US, 4))
    assert held == 5
    assert samples.is_stored(held)
    assert [value for *_, value in samples.next_rows()] == [float(number) for number in range(6, 17)]
    assert not samples.is_stored(3)
    assert samples.is_stored(16)
    assert samples.next_rows() == []
    assert samples.waiting == 0


def test_a_node_boots_again_when_nothing_of_the_old_boot_is_left() -> None:
    samples = node()
    samples.measure(16, 0)
    samples.reboot(SECOND)
    assert samples.boot.boot_id == FIRST
    assert samples.measure(16, 0) is None
    samples.is_stored(16)
    assert samples.boot.boot_id == SECOND
    samples.measure(8, 0)
    (_, monotonic, channel, _, value), *_ = samples.next_rows()
    assert (monotonic, channel, value) == (TICK_US, 0, 17.0)
    assert samples.boot.number_at(None) == 16


def test_a_node_that_cannot_hand_over_stops_measuring_before_its_memory_is_full() -> None:
    samples = node()
    while samples.measure(ROWS_MAX * 2, 0) is not None:
        pass
    assert samples.waiting <= WAITING_MAX
    assert len(samples.next_rows()) == ROWS_MAX
