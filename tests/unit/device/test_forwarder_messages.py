from datetime import UTC, datetime
from uuid import UUID

import pytest

from farmiq.contracts.decoding import decode
from farmiq.contracts.envelope import MqttEnvelope, payload_of
from farmiq.contracts.limits import MQTT_MESSAGE_BYTES_MAX
from farmiq.contracts.telemetry import TelemetryBatch, TelemetryLoss
from farmiq.device.node_forwarder.batches import Messages, batch_of, loss_of
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.kit.clock import Clock
from farmiq.kit.settings import BadSettings, load
from farmiq.spool import Cause, Channel, Frame, Header, Loss, Run

ENVIRON = {
    "TENANT_ID": "demo",
    "FARM_ID": "farm-1",
    "BARN_ID": "barn-1",
    "DEVICE_ID": "node-1",
    "MQTT_URL": "mqtt://node-1:secret-word@localhost:1883",
    "NODE_FORWARDER_SOCKET": "socket",
    "NODE_FORWARDER_SPOOL_DIR": "spool",
}
NOON_US = 1_735_732_800_000_000
CHANNELS = (Channel("temperature", "C", "t1"), Channel("humidity", "%", ""), Channel("ammonia", "ppm", "nh3"))
HEADER = Header(UUID(int=1), UUID(int=2), 1, NOON_US, CHANNELS)


def run(*samples: tuple[int, int, float]) -> Run:
    frames = [
        Frame(seq, NOON_US + seq, seq * 10, channel, quality, value)
        for seq, (channel, quality, value) in enumerate(samples, 41)
    ]
    return Run(HEADER, frames)


def test_a_run_becomes_columns_that_name_only_the_channels_in_use() -> None:
    batch = batch_of(run((0, 2, 1.5), (2, 2, 2.5), (0, 2, 3.5)), "replay")
    assert (batch.seq0, batch.last_seq, batch.lane, batch.time_quality) == (41, 43, "replay", 2)
    assert [(channel.metric, channel.sensor) for channel in batch.channels] == [
        ("temperature", "t1"),
        ("ammonia", "nh3"),
    ]
    assert (batch.t, batch.c, batch.v) == ([NOON_US + 41, NOON_US + 42, NOON_US + 43], [0, 1, 0], [1.5, 2.5, 3.5])
    assert (batch.stream_id, batch.boot_id) == (UUID(int=1), UUID(int=2))


def test_a_batch_ends_where_the_time_quality_changes() -> None:
    batch = batch_of(run((0, 0, 1.0), (1, 0, 2.0), (0, 2, 3.0)), "live")
    assert (batch.last_seq, batch.time_quality) == (42, 0)


def test_messages_are_what_the_edge_accepts() -> None:
    messages = Messages(load(ForwarderSettings, ENVIRON), Clock())
    payload, last_seq = messages.batch(run((0, 2, 1.5), (1, 2, 2.5)), "live")
    envelope = decode(MqttEnvelope, payload, max_bytes=10_000)
    batch = payload_of(envelope)
    assert isinstance(batch, TelemetryBatch)
    assert (envelope.tenant_id, envelope.device_id, batch.count, last_seq) == ("demo", "node-1", 2, 42)
    assert messages.batch_topic == "iot/telemetry/demo/farm-1/barn-1/node-1/batch"
    assert messages.loss_topic == "iot/event/demo/farm-1/barn-1/node-1/telemetry.loss"
    assert messages.status_topic == "iot/status/demo/farm-1/barn-1/node-1"
    assert messages.ack_topic == "iot/node-1/ack"


@pytest.mark.parametrize("wall_us", [None, NOON_US])
def test_a_loss_travels_under_its_own_id(wall_us: int | None) -> None:
    loss = Loss(UUID(int=5), UUID(int=1), 3, 9, wall_us, wall_us, NOON_US, Cause.CAP_REACHED)
    envelope = decode(MqttEnvelope, Messages(load(ForwarderSettings, ENVIRON), Clock()).loss(loss), max_bytes=10_000)
    told = payload_of(envelope)
    assert isinstance(told, TelemetryLoss)
    assert envelope.event_id == UUID(int=5)
    assert (told.first_seq, told.last_seq, told.count, told.reason) == (3, 9, 7, "cap_reached")
    assert told.dropped_at == datetime(2025, 1, 1, 12, tzinfo=UTC)
    assert told.first_ts == (None if wall_us is None else told.dropped_at)


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_is_a_reason_that_the_contract_takes(cause: Cause) -> None:
    assert loss_of(Loss(UUID(int=5), UUID(int=1), 1, 1, None, None, NOON_US, cause)).reason == cause.value


@pytest.mark.parametrize(
    ("name", "value"),
    [("NODE_FORWARDER_SYNC", "sometimes"), ("NODE_FORWARDER_MAX_SPOOL_BYTES", "10"), ("DEVICE_ID", "a/b")],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=name):
        load(ForwarderSettings, {**ENVIRON, name: value})


def test_settings_do_not_show_the_password() -> None:
    assert "secret-word" not in repr(load(ForwarderSettings, ENVIRON))


@pytest.mark.parametrize(("channels", "samples"), [(200, 5000), (1024, 5000), (1024, 1024), (3, 5000), (1, 1)])
def test_a_batch_is_cut_so_that_the_edge_takes_it_and_nothing_is_left_out(channels: int, samples: int) -> None:
    """Finding 9 of the reading of the path from device to edge: a message of 285 KB was refused for ever."""
    table = tuple(Channel(f"m{n}".ljust(63, "x"), "C", f"s{n}".ljust(63, "y")) for n in range(channels))
    frames = [Frame(1 + n, NOON_US + n, n, n % channels, 2, -(1.0 + n / 7) * 1e-101) for n in range(samples)]
    messages = Messages(load(ForwarderSettings, ENVIRON), Clock())
    values: list[float] = []
    while frames:
        payload, last_seq = messages.batch(Run(Header(UUID(int=1), UUID(int=2), 1, NOON_US, table), frames), "live")
        batch = payload_of(decode(MqttEnvelope, payload, max_bytes=MQTT_MESSAGE_BYTES_MAX))
        assert isinstance(batch, TelemetryBatch)
        assert (batch.seq0, batch.last_seq) == (frames[0].seq, last_seq)
        values += batch.v
        frames = [frame for frame in frames if frame.seq > last_seq]
    assert values == [-(1.0 + n / 7) * 1e-101 for n in range(samples)]
