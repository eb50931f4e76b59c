"""Every way in which bytes can be wrong has a name, a bounded explanation, and no other consequence."""

import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import DETAIL_LENGTH_MAX, MalformedMessage, Unencodable, decode, encode, refuse_depth
from farmiq.contracts.envelope import BusEnvelope, MqttEnvelope, bus_envelope, mqtt_envelope, payload_of
from farmiq.contracts.limits import DEPTH_MAX
from farmiq.contracts.media import MediaStored
from farmiq.contracts.telemetry import Reading, TelemetryAggregated, TelemetryIngested, TelemetryLoss
from farmiq.contracts.weighvision import WeightRecorded

PLENTY = 1 << 24
KINDS: list[type[Any]] = [MqttEnvelope, BusEnvelope, Reading, DeviceAck, MediaStored]

GOOD: dict[str, Any] = {
    "schema_version": "1.0",
    "event_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0201",
    "trace_id": "trace-id-789",
    "tenant_id": "demo",
    "device_id": "node-1",
    "event_type": "telemetry.reading",
    "ts": "2025-01-01T10:05:10Z",
    "payload": {"value": 26.4, "unit": "C"},
}
GOOD_BUS: dict[str, Any] = {
    "event_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0201",
    "event_type": "telemetry.ingested",
    "tenant_id": "demo",
    "occurred_at": "2025-01-01T10:05:10Z",
    "payload": {"metric_type": "temperature", "metric_value": 26.4, "unit": "C"},
}


def refusal(kind: type[Any], data: bytes, max_bytes: int = PLENTY) -> MalformedMessage:
    with pytest.raises(MalformedMessage) as caught:
        decode(kind, data, max_bytes=max_bytes)
    return caught.value


def outcome(kind: type[Any], data: bytes) -> object:
    try:
        message = decode(kind, data, max_bytes=PLENTY)
        return payload_of(message) if isinstance(message, MqttEnvelope) else message
    except MalformedMessage as refused:
        return refused


def envelope_with(**changes: object) -> bytes:
    return json.dumps(GOOD | changes).encode()


def envelope_with_raw(payload: bytes) -> bytes:
    return json.dumps(GOOD | {"payload": "HERE"}).encode().replace(b'"HERE"', payload)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_over_the_size_limit_is_refused_before_it_is_read(kind: type[Any]) -> None:
    assert refusal(kind, b"\xff" * 101, max_bytes=100).code == "too_large"


def test_a_message_at_the_size_limit_is_read() -> None:
    data = envelope_with()
    assert decode(MqttEnvelope, data, max_bytes=len(data)).tenant_id == "demo"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":"\\\\","b":' + b'[{"c":' * 50_000,
    ],
    ids=["arrays", "objects", "closed", "after an escape"],
)
def test_nesting_without_end_is_refused_without_recursion(kind: type[Any], data: bytes) -> None:
    assert refusal(kind, data).code == "too_deep"


def test_nesting_is_counted_exactly() -> None:
    inside = DEPTH_MAX - 1
    assert decode(MqttEnvelope, envelope_with_raw(b'{"a":' * (inside) + b"1" + b"}" * inside), max_bytes=PLENTY)
    deeper = envelope_with_raw(b'{"a":' * (inside + 1) + b"1" + b"}" * (inside + 1))
    assert refusal(MqttEnvelope, deeper).code == "too_deep"


json_values = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('[]{}"\\a/u')),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from('[{"\\')), inner, max_size=4),
    max_leaves=60,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(value=json_values)
def test_brackets_in_strings_are_not_nesting(value: object) -> None:
    data = json.dumps(value).encode()
    depth = depth_of(value)
    refuse_depth(data, depth)
    if depth:
        with pytest.raises(MalformedMessage):
            refuse_depth(data, depth - 1)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("place", [b'{"value":%s}', b'{"value":1,"more":[%s]}'])
def test_what_json_calls_no_number_is_refused_by_name(number: bytes, place: bytes) -> None:
    for data in (place % number, envelope_with_raw(place % number)):
        refused = refusal(MqttEnvelope if b"payload" in data else Reading, data)
        assert refused.code == "not_json"
        assert "NaN" in refused.detail


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"1" + b"0" * 400])
def test_a_number_without_a_float_is_refused(number: bytes) -> None:
    envelope = decode(MqttEnvelope, envelope_with_raw(b'{"value":%s}' % number), max_bytes=PLENTY)
    with pytest.raises(MalformedMessage) as caught:
        payload_of(envelope)
    assert caught.value.code == "schema"
    assert "$.value" in caught.value.detail


@pytest.mark.parametrize("data", [b"\xff", b'{"value":1,"unit":"\xc3"}', b'{"unit":"\xed\xa0\x80"}', b"\xff\xfe{\0}\0"])
@pytest.mark.parametrize("kind", [Reading, MqttEnvelope])
def test_bytes_that_are_not_utf8_are_refused(kind: type[Any], data: bytes) -> None:
    assert refusal(kind, data if kind is Reading else envelope_with_raw(data)).code == "not_utf8"


@pytest.mark.parametrize("unit", [rb"\u0000", rb"a\u0000b", rb"\\\u0000"])
@pytest.mark.parametrize("place", [b'{"value":1,"unit":"%s"}', b'{"value":1,"%s":2}'])
def test_a_nul_character_is_refused_wherever_it_stands(unit: bytes, place: bytes) -> None:
    assert refusal(Reading, place % unit).code == "nul_character"
    assert refusal(MqttEnvelope, envelope_with_raw(place % unit)).code == "nul_character"


def test_the_text_backslash_u0000_is_not_a_nul_character() -> None:
    reading = decode(Reading, rb'{"value":1,"unit":"\\u0000"}', max_bytes=PLENTY)
    assert reading.unit == "\\u0000"
    assert decode(Reading, encode(reading), max_bytes=PLENTY) == reading


@pytest.mark.parametrize(
    "text", [rb"\ud800", rb"\uDFFF", rb"\udc00\ud800", rb"\ud83d\ud83d\ude00", rb"\ud83dA", rb"\\\ud83d\\\ude00"]
)
def test_half_a_character_is_refused(text: bytes) -> None:
    data = b'{"value":1,"unit":"%s"}' % text
    assert refusal(Reading, data).code == "lone_surrogate"
    assert refusal(MqttEnvelope, envelope_with_raw(data)).code == "lone_surrogate"


def test_a_whole_character_in_two_halves_is_read() -> None:
    assert decode(Reading, rb'{"value":1,"unit":"\ud83d\udc37\\ud800"}', max_bytes=PLENTY).unit == "🐷\\ud800"


@pytest.mark.parametrize(
    "data", [b"", b" ", b"{", b'{"value":1', b'{"value":1}x', b"{'value':1}", b'{"value":01}', b"\xef\xbb\xbf{}", b"\0"]
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    refused = refusal(Reading, data)
    assert refused.code == "not_json"
    assert refused.detail


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"event_id": "not-a-uuid"}, "$.event_id"),
        ({"event_id": 7}, "$.event_id"),
        ({"tenant_id": ""}, "$.tenant_id"),
        ({"tenant_id": "a/b"}, "$.tenant_id"),
        ({"tenant_id": "../b"}, "$.tenant_id"),
        ({"tenant_id": "demo\n"}, "$.tenant_id"),
        ({"tenant_id": "x" * 65}, "$.tenant_id"),
        ({"tenant_id": None}, "$.tenant_id"),
        ({"device_id": "telemetry"}, "$.device_id"),
        ({"device_id": "status"}, "$.device_id"),
        ({"device_id": "#"}, "$.device_id"),
        ({"event_type": "telemetry..reading"}, "$.event_type"),
        ({"event_type": "a" * 129}, "$.event_type"),
        ({"event_type": "a.b\n"}, "$.event_type"),
        ({"trace_id": "a b"}, "$.trace_id"),
        ({"trace_id": "a\r\nx-admin: 1"}, "$.trace_id"),
        ({"trace_id": "x" * 129}, "$.trace_id"),
        ({"ts": "2025-01-01T10:05:10"}, "$.ts"),
        ({"ts": 1735725600}, "$.ts"),
        ({"ts": "yesterday"}, "$.ts"),
        ({"retry_count": -1}, "$.retry_count"),
        ({"retry_count": True}, "$.retry_count"),
        ({"payload": [1]}, "$.payload"),
        ({"payload": None}, "$.payload"),
        ({"payload": "text"}, "$.payload"),
        ({"schema_version": 1.0}, "$.schema_version"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, object], path: str) -> None:
    refused = refusal(MqttEnvelope, envelope_with(**changes))
    assert refused.code == "schema"
    assert path in refused.detail


@pytest.mark.parametrize("field", ["event_id", "tenant_id", "device_id", "event_type", "ts", "payload"])
def test_a_missing_field_is_named(field: str) -> None:
    data = json.dumps({name: value for name, value in GOOD.items() if name != field}).encode()
    refused = refusal(MqttEnvelope, data)
    assert refused.code == "schema"
    assert field in refused.detail


@pytest.mark.parametrize("field", ["event_id", "event_type", "tenant_id", "occurred_at", "payload"])
def test_a_field_missing_on_the_bus_is_named(field: str) -> None:
    refused = refusal(BusEnvelope, json.dumps({k: v for k, v in GOOD_BUS.items() if k != field}).encode())
    assert refused.code == "schema"
    assert field in refused.detail


def test_what_a_device_may_leave_out_may_be_left_out() -> None:
    data = json.dumps({name: GOOD[name] for name in GOOD if name not in {"schema_version", "trace_id"}}).encode()
    envelope = decode(MqttEnvelope, data, max_bytes=PLENTY)
    assert (envelope.schema_version, envelope.trace_id) == ("1.0", None)
    assert b'"schema_version":"1.0"' in encode(envelope)


def test_an_operators_outbox_row_without_place_trace_or_known_type_is_an_envelope() -> None:
    data = json.dumps(GOOD_BUS | {"event_type": "test.event", "payload": {"test": 1}}).encode()
    envelope = decode(BusEnvelope, data, max_bytes=PLENTY)
    assert (envelope.farm_id, envelope.device_id, envelope.trace_id) == (None, None, None)
    with pytest.raises(MalformedMessage) as caught:
        payload_of(envelope)
    assert caught.value.code == "unknown_event_type"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.9999"])
def test_every_first_schema_is_understood(version: str) -> None:
    assert decode(MqttEnvelope, envelope_with(schema_version=version), max_bytes=PLENTY).schema_version == version


@pytest.mark.parametrize("version", ["2.0", "0.9", "1", "1.0.1", "", "1.x", "1.0\n", "１.0", "10.0"])  # noqa: RUF001 - a digit that is none of ours
def test_another_schema_is_refused_by_name(version: str) -> None:
    assert refusal(MqttEnvelope, envelope_with(schema_version=version)).code == "unsupported_schema_version"


def test_a_later_schema_is_recognised_even_where_it_breaks_ours() -> None:
    refused = refusal(MqttEnvelope, b'{"schema_version":"2.0","id":{"new":"form"},"ts":17}')
    assert refused.code == "unsupported_schema_version"
    assert "2.0" in refused.detail


def test_a_name_given_twice_counts_with_its_last_value() -> None:
    assert decode(Reading, b'{"value":1,"unit":"C","value":2}', max_bytes=PLENTY).value == 2


@pytest.mark.parametrize("event_type", ["telemetry.ingested", "media.stored", "door.opened"])
def test_a_type_that_devices_do_not_send_is_unknown_here(event_type: str) -> None:
    envelope = decode(MqttEnvelope, envelope_with(event_type=event_type), max_bytes=PLENTY)
    with pytest.raises(MalformedMessage) as caught:
        payload_of(envelope)
    assert caught.value.code == "unknown_event_type"


def test_a_wrong_payload_is_named_with_its_event_type() -> None:
    envelope = decode(MqttEnvelope, envelope_with(payload={"value": True}), max_bytes=PLENTY)
    with pytest.raises(MalformedMessage) as caught:
        payload_of(envelope)
    assert caught.value.code == "schema"
    assert "telemetry.reading" in caught.value.detail
    assert "$.value" in caught.value.detail


@given(data=st.binary(max_size=200) | st.text(st.sampled_from('{}[]",:\\u0d8c1e-.tf nul'), max_size=80).map(str.encode))
def test_no_bytes_cause_anything_but_a_message_or_a_refusal(data: bytes) -> None:
    for kind in KINDS:
        result = outcome(kind, data)
        assert isinstance(result, msgspec.Struct | MalformedMessage)
        assert not isinstance(result, MalformedMessage) or len(result.detail) <= DETAIL_LENGTH_MAX


@given(position=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_damaged_byte_causes_nothing_but_a_message_or_a_refusal(position: int, byte: int) -> None:
    data = bytearray(envelope_with())
    data[position % len(data)] = byte
    result = outcome(MqttEnvelope, bytes(data))
    assert isinstance(result, Reading | MalformedMessage)


def test_an_explanation_is_bounded_and_survives_a_process_border() -> None:
    refused = MalformedMessage("schema", "x" * 10_000)
    assert len(refused.detail) == DETAIL_LENGTH_MAX
    again = pickle.loads(pickle.dumps(refused))  # noqa: S301 - our own bytes, one line above
    assert (again.code, again.detail) == (refused.code, refused.detail)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_no_message_of_ours_carries_what_is_not_a_number(value: float) -> None:
    for message in (value, [value], [1, value], {"a": [{"b": value}]}, (1.0, value), WeightRecorded(weight_kg=value)):
        with pytest.raises(Unencodable):
            encode(message)
    for build in (
        lambda: Reading(value=value),
        lambda: TelemetryIngested(metric_type="a", metric_value=value),
        lambda: TelemetryAggregated(
            metric_type="a", aggregation_window="1h", avg_value=value, min_value=0.0, max_value=1.0
        ),
    ):
        with pytest.raises(ValueError, match=r"finite|missing"):
            build()


def test_no_message_of_ours_carries_a_time_that_is_not_utc() -> None:
    for time in (datetime(2025, 1, 1), datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=7)))):  # noqa: DTZ001 - the point
        with pytest.raises(Unencodable):
            encode({"at": [time]})
    assert encode({"at": datetime(2025, 1, 1, tzinfo=UTC)}) == b'{"at":"2025-01-01T00:00:00Z"}'


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800"])
def test_no_message_of_ours_carries_a_character_that_cannot_be_stored(text: str) -> None:
    with pytest.raises(Unencodable):
        encode(Reading(value=1.0, unit=text))


def test_what_has_no_form_in_json_is_not_encoded() -> None:
    with pytest.raises(Unencodable):
        encode({"a": object()})


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_utc_cannot_hold_is_refused(time: str) -> None:
    assert refusal(MqttEnvelope, envelope_with(ts=time)).code == "schema"
    assert refusal(BusEnvelope, json.dumps(GOOD_BUS | {"occurred_at": time}).encode()).code == "schema"


def test_a_message_without_time_zone_is_not_made() -> None:
    with pytest.raises(ValueError, match="time zone"):
        TelemetryLoss(
            stream_id=UUID(int=1),
            first_seq=1,
            last_seq=1,
            count=1,
            reason="test",
            dropped_at=datetime(2025, 1, 1),  # noqa: DTZ001 - the point
        )


def test_an_envelope_is_not_made_around_the_wrong_payload() -> None:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    with pytest.raises(TypeError, match=r"telemetry\.ingested"):
        bus_envelope(
            WeightRecorded(weight_kg=1.0),
            event_id=UUID(int=1),
            event_type="telemetry.ingested",
            tenant_id="demo",
            occurred_at=now,
        )
    with pytest.raises(TypeError, match=r"telemetry\.batch"):
        mqtt_envelope(
            Reading(value=1.0),
            event_id=UUID(int=1),
            event_type="telemetry.batch",
            tenant_id="demo",
            device_id="node-1",
            ts=now,
        )
