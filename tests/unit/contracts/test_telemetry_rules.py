"""What a batch, a loss, a reading and an acknowledgement may not say, field by field."""

from datetime import UTC, datetime
from math import inf
from typing import Any
from uuid import UUID

import msgspec
import pytest

from farmiq.contracts.ack import RANGES_MAX, DeviceAck
from farmiq.contracts.decoding import MalformedMessage, decode, encode
from farmiq.contracts.envelope import mqtt_envelope
from farmiq.contracts.limits import CHANNELS_MAX, MQTT_MESSAGE_BYTES_MAX, SAMPLES_MAX, SEQ_LIMIT
from farmiq.contracts.telemetry import T_MAX_US, T_MIN_US, Channel, Reading, TelemetryBatch, TelemetryLoss, pack_of
from farmiq.contracts.timestamps import from_us, to_us

STREAM = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0001"
BATCH: dict[str, Any] = {
    "stream_id": STREAM,
    "boot_id": STREAM,
    "lane": "live",
    "seq0": 1,
    "time_quality": 2,
    "channels": [{"metric": "temperature", "unit": "C"}, {"metric": "humidity", "unit": "%"}],
    "t": [1, 2, 3],
    "c": [0, 1, 0],
    "v": [1.0, 2, -3.5],
}
LOSS: dict[str, Any] = {
    "stream_id": STREAM,
    "first_seq": 10,
    "last_seq": 19,
    "count": 10,
    "reason": "spool_full",
    "dropped_at": "2025-01-01T10:00:00Z",
}
ACK: dict[str, Any] = {
    "stream_id": STREAM,
    "acked_seq": 10,
    "received": [[12, 20]],
    "epoch": STREAM,
    "ts": "2025-01-01T10:00:00Z",
}


def assert_refused(kind: type[Any], document: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedMessage, match=words) as caught:
        decode(kind, msgspec.json.encode(document), max_bytes=1 << 20)
    assert caught.value.code == "schema"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"t": [1, 2]}, "one length"),
        ({"c": [0, 1]}, "one length"),
        ({"v": [1.0, 2.0, 3.0, 4.0]}, "one length"),
        ({"t": [], "c": [], "v": []}, "length >= 1"),
        ({"t": [1] * 5001, "c": [0] * 5001, "v": [1.0] * 5001}, "length <= 5000"),
        ({"c": [0, 1, 2]}, "outside channels"),
        ({"c": [0, -1, 0]}, "outside channels"),
        ({"channels": []}, "length >= 1"),
        ({"channels": [{"metric": "a"}] * (CHANNELS_MAX + 1)}, f"length <= {CHANNELS_MAX}"),
        ({"channels": [{"metric": "batch"}] * 2}, r"channels\[0\].metric|channels\[...\].metric"),
        ({"channels": [{"metric": "a/b"}] * 2}, "metric"),
        ({"seq0": 0}, "seq0"),
        ({"seq0": SEQ_LIMIT}, "seq0"),
        ({"seq0": SEQ_LIMIT - 3}, "seq0"),
        ({"seq0": 1.5}, "seq0"),
        ({"t": [1, 2, T_MAX_US + 1]}, "calendar"),
        ({"t": [T_MIN_US - 1, 2, 3]}, "calendar"),
        ({"t": [1, 2, 2**63]}, "calendar"),
        ({"t": [1, 2, 3.5]}, r"\$\.t"),
        ({"v": [1.0, None, 3.0]}, r"\$\.v"),
        ({"v": [1.0, True, 3.0]}, r"\$\.v"),
        ({"v": [1.0, "2", 3.0]}, r"\$\.v"),
        ({"lane": "fast"}, "lane"),
        ({"time_quality": 256}, "time_quality"),
        ({"time_quality": -1}, "time_quality"),
        ({"stream_id": "s"}, "stream_id"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused(changes: dict[str, Any], words: str) -> None:
    assert decode(TelemetryBatch, msgspec.json.encode(BATCH), max_bytes=1000).count == 3
    assert_refused(TelemetryBatch, BATCH | changes, words)


def test_the_last_sequences_of_a_stream_are_taken() -> None:
    last = decode(TelemetryBatch, msgspec.json.encode(BATCH | {"seq0": SEQ_LIMIT - 4}), max_bytes=1000)
    assert last.last_seq == SEQ_LIMIT - 2


def test_a_batch_with_a_value_that_is_no_number_is_not_made() -> None:
    with pytest.raises(ValueError, match="finite"):
        TelemetryBatch(
            stream_id=UUID(STREAM),
            boot_id=UUID(STREAM),
            lane="live",
            seq0=1,
            time_quality=0,
            channels=[Channel(metric="a")],
            t=[1, 2],
            c=[0, 0],
            v=[1.0, inf],
        )


@pytest.mark.parametrize("run", [(0, 2), (1, 4), (3, 2), (4, 4)])
def test_a_run_outside_its_batch_is_not_made(run: tuple[int, int]) -> None:
    batch = decode(TelemetryBatch, msgspec.json.encode(BATCH), max_bytes=1000)
    with pytest.raises(ValueError, match="not inside"):
        pack_of(batch, *run)


def sized_batch(samples: int, value: float) -> bytes:
    batch = TelemetryBatch(
        stream_id=UUID(STREAM),
        boot_id=UUID(STREAM),
        lane="replay",
        seq0=1_000_000_001,
        time_quality=2,
        channels=[Channel(metric=f"temperature-{i}", unit="C", sensor=f"t{i}") for i in range(10)],
        t=[1_735_725_600_000_000 + i * 100_000 for i in range(samples)],
        c=[i % 10 for i in range(samples)],
        v=[value] * samples,
    )
    return encode(
        mqtt_envelope(
            batch,
            event_id=UUID(STREAM),
            event_type="telemetry.batch",
            tenant_id="demo",
            device_id="node-1",
            ts=datetime(2025, 1, 1, tzinfo=UTC),
            trace_id="t" * 32,
        )
    )


def test_five_hundred_samples_fit_the_size_that_the_uplink_is_planned_for() -> None:
    assert len(sized_batch(500, 26.4)) < 13_000


def test_the_largest_batch_fits_one_message() -> None:
    assert len(sized_batch(SAMPLES_MAX, -1.2345678901234567e-300)) < MQTT_MESSAGE_BYTES_MAX


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"first_seq": 20}, "above"),
        ({"count": 11}, "larger"),
        ({"count": 0}, "count"),
        ({"first_seq": 0}, "first_seq"),
        ({"last_seq": SEQ_LIMIT}, "last_seq"),
        ({"reason": ""}, "reason"),
        ({"reason": "r" * 65}, "reason"),
        ({"dropped_at": None}, "dropped_at"),
        ({"first_ts": "now"}, "first_ts"),
    ],
)
def test_a_loss_that_contradicts_itself_is_refused(changes: dict[str, Any], words: str) -> None:
    assert decode(TelemetryLoss, msgspec.json.encode(LOSS | {"count": 4}), max_bytes=1000).count == 4
    assert_refused(TelemetryLoss, LOSS | changes, words)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "value"),
        ({"unit": "C"}, "value"),
        ({"value": True}, r"\$\.value"),
        ({"value": "26.4"}, r"\$\.value"),
        ({"value": None}, r"\$\.value"),
        ({"metric_value": True}, "metric_value"),
        ({"value": 1, "metric_value": 2}, "differ"),
        ({"value": 1, "unit": "x" * 33}, "unit"),
        ({"value": 1, "metric_type": "a/b"}, "metric_type"),
        ({"value": 1, "metric_type": "batch"}, "metric_type"),
    ],
)
def test_a_reading_without_one_number_is_refused(document: dict[str, Any], words: str) -> None:
    assert_refused(Reading, document, words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"acked_seq": -1}, "acked_seq"),
        ({"acked_seq": SEQ_LIMIT}, "acked_seq"),
        ({"received": [[20, 12]]}, "before it begins"),
        ({"received": [[0, 12]]}, "received"),
        ({"received": [[12]]}, "received"),
        ({"received": [[12, 13, 14]]}, "received"),
        ({"received": [[12, 13]] * (RANGES_MAX + 1)}, "received"),
        ({"stream_id": None}, "without stream_id"),
        ({"epoch": None}, "epoch"),
        ({"events": [{"event_id": STREAM, "result": "perhaps"}]}, "result"),
    ],
)
def test_an_absurd_acknowledgement_is_refused(changes: dict[str, Any], words: str) -> None:
    assert decode(DeviceAck, msgspec.json.encode(ACK), max_bytes=1000).acked_seq == 10
    assert_refused(DeviceAck, ACK | changes, words)


def test_a_station_without_stream_is_acknowledged_by_event() -> None:
    document = {"epoch": STREAM, "ts": "2025-01-01T10:00:00Z", "events": [{"event_id": STREAM, "result": "duplicate"}]}
    assert decode(DeviceAck, msgspec.json.encode(document), max_bytes=1000).events[0].result == "duplicate"


@pytest.mark.parametrize("microseconds", [T_MIN_US, -1, 0, 1, 1_735_725_600_123_457, T_MAX_US])
def test_microseconds_and_times_are_the_same_to_the_last_one(microseconds: int) -> None:
    assert to_us(from_us(microseconds)) == microseconds


@pytest.mark.parametrize("ts", ["0001-01-01T23:59:59Z", "9999-12-31T00:00:00Z", "0001-01-02T00:00:00+00:01"])
def test_the_ends_of_the_calendar_are_refused_because_drivers_take_them_for_infinity(ts: str) -> None:
    document = {"epoch": STREAM, "ts": ts}
    with pytest.raises(MalformedMessage, match="outside the years"):
        decode(DeviceAck, msgspec.json.encode(document), max_bytes=1000)
