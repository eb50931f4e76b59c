from uuid import uuid4

from farmiq.contracts.telemetry import Channel as ChannelOnTheWire
from farmiq.device.node_forwarder.batches import batch_of, loss_of
from farmiq.spool import Cause, Channel, Frame, Header, Loss, Run

CHANNELS = (Channel("temperature", "C", "t1"), Channel("humidity", "%", ""), Channel("co2", "ppm", "c1"))
HEADER = Header(uuid4(), uuid4(), 1, 0, CHANNELS)


def frame(seq: int, channel: int, quality: int = 2) -> Frame:
    return Frame(seq, 1_790_000_000_000_000 + seq, seq, channel, quality, seq / 2)


def test_a_batch_names_only_the_channels_in_use_and_keeps_every_value() -> None:
    batch = batch_of(Run(HEADER, [frame(7, 2), frame(8, 1), frame(9, 2)]), "replay")
    assert batch.channels == [
        ChannelOnTheWire(metric="humidity", unit="%"),
        ChannelOnTheWire(metric="co2", unit="ppm", sensor="c1"),
    ]
    assert (batch.seq0, batch.last_seq, batch.c, batch.v) == (7, 9, [1, 0, 1], [3.5, 4.0, 4.5])
    assert (batch.stream_id, batch.boot_id, batch.lane) == (HEADER.stream_id, HEADER.boot_id, "replay")


def test_a_batch_ends_where_the_time_quality_changes() -> None:
    batch = batch_of(Run(HEADER, [frame(1, 0, 0), frame(2, 0, 0), frame(3, 0, 2)]), "live")
    assert (batch.last_seq, batch.time_quality) == (2, 0)


def test_a_loss_keeps_its_range_cause_and_unknown_times() -> None:
    loss = Loss(uuid4(), HEADER.stream_id, 11, 20, None, None, 1_790_000_000_000_000, Cause.DAMAGED)
    message = loss_of(loss)
    assert (message.first_seq, message.last_seq, message.count, message.reason) == (11, 20, 10, "damaged")
    assert message.first_ts is None
