"""Whatever we can say, we understand again: `decode(encode(x)) == x` for every message."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farmiq.contracts.ack import DeviceAck, EventAck
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import (
    BUS_PAYLOADS,
    DEVICE_PAYLOADS,
    BusEnvelope,
    MqttEnvelope,
    bus_envelope,
    mqtt_envelope,
    payload_of,
)
from farmiq.contracts.ids import RESERVED_DEVICE_IDS, RESERVED_METRICS
from farmiq.contracts.inference import InferenceCompleted
from farmiq.contracts.limits import CHANNELS_MAX, SEQ_LIMIT
from farmiq.contracts.media import MediaStored, PresignAnswer, PresignRequest
from farmiq.contracts.status import DeviceStatus, FailedSession, LossRange
from farmiq.contracts.sync import (
    EdgeBatch,
    EdgeBatchAnswer,
    EventResult,
    SyncBatchAcked,
    SyncBatchSent,
    answer_of,
    decode_edge_batch,
)
from farmiq.contracts.telemetry import (
    T_MAX_US,
    T_MIN_US,
    Channel,
    Reading,
    TelemetryAggregated,
    TelemetryBatch,
    TelemetryBatchIngested,
    TelemetryIngested,
    TelemetryLoss,
    pack_of,
)
from farmiq.contracts.weighvision import (
    ImageCaptured,
    SessionCancelled,
    SessionCreated,
    SessionFinalized,
    StationSessionCancelled,
    StationSessionCreated,
    StationSessionFinalized,
    WeightRecorded,
)

PLENTY = 1 << 20
SOME = settings(max_examples=60)  # messages are large to draw
FEWER = settings(SOME, max_examples=25)

uuids = st.uuids()
ids = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
device_ids = ids.filter(lambda name: name not in RESERVED_DEVICE_IDS)
metrics = ids.filter(lambda name: name not in RESERVED_METRICS)
trace_ids = st.from_regex(r"\A[!-~]{1,128}\Z")
sha256s = st.from_regex(r"\A[0-9a-fA-F]{64}\Z")
# What PostgreSQL can store: no NUL (and hypothesis makes no lone surrogates for "utf-8").
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=32)
units = texts
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
times = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC) | zones)  # noqa: DTZ001 - bounds
values = st.floats(allow_nan=False, allow_infinity=False)
figures = st.floats(0, 1e300)
weights = st.floats(0, 100_000)
seqs = st.integers(1, SEQ_LIMIT - 1)
counts = st.integers(0, SEQ_LIMIT - 1)
event_counts = st.integers(0, 2**31 - 1)
sizes = st.integers(0, 2**53 - 1)
mime_types = st.sampled_from(["image/jpeg", "image/png", "image/webp", "application/octet-stream"])
ranges = st.tuples(seqs, seqs).map(lambda ends: (min(ends), max(ends)))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


channels = st.builds(Channel, metric=metrics, unit=units, sensor=maybe(ids))


@st.composite
def batches(draw: st.DrawFn, kind: type[TelemetryBatch] = TelemetryBatch) -> TelemetryBatch:
    of_batch: Sequence[Channel] = draw(st.lists(channels, min_size=1, max_size=4))
    samples = draw(
        st.lists(
            st.tuples(st.integers(T_MIN_US, T_MAX_US), st.integers(0, len(of_batch) - 1), values),
            min_size=1,
            max_size=20,
        )
    )
    return kind(
        stream_id=draw(uuids),
        boot_id=draw(uuids),
        lane=draw(st.sampled_from(["live", "replay"])),
        seq0=draw(st.integers(1, SEQ_LIMIT - 1 - len(samples))),
        time_quality=draw(st.integers(0, 255)),
        channels=list(of_batch),
        t=[t for t, _, _ in samples],
        c=[c for _, c, _ in samples],
        v=[v for _, _, v in samples],
    )


@st.composite
def losses(draw: st.DrawFn) -> TelemetryLoss:
    first, last = draw(ranges)
    return TelemetryLoss(
        stream_id=draw(uuids),
        first_seq=first,
        last_seq=last,
        count=draw(st.integers(1, last - first + 1)),
        reason=draw(ids),
        dropped_at=draw(times),
        first_ts=draw(maybe(times)),
        last_ts=draw(maybe(times)),
    )


@st.composite
def aggregates(draw: st.DrawFn) -> TelemetryAggregated:
    low, high = sorted([draw(values), draw(values)])
    return TelemetryAggregated(
        metric_type=draw(metrics),
        aggregation_window=draw(st.from_regex(r"\A[1-9][0-9]{0,3}[smhd]\Z")),
        avg_value=draw(values),
        min_value=low,
        max_value=high,
        unit=draw(units),
        count=draw(maybe(counts)),
        sum_value=draw(maybe(values)),
        bucket_start_at=draw(maybe(times)),
        bucket_end_at=draw(maybe(times)),
    )


@st.composite
def stored_media(draw: st.DrawFn) -> MediaStored:
    places: list[dict[str, str]] = [
        {"path": "/data/a.jpg"},
        {"bucket": "media", "object_key": draw(texts.filter(bool))},
        {"bucket": "media", "object_key": "tenants/a", "path": "/data/a.jpg"},
    ]
    return MediaStored(
        media_id=draw(uuids),
        mime_type=draw(mime_types),
        size_bytes=draw(sizes),
        sha256=draw(maybe(sha256s)),
        etag=draw(maybe(texts)),
        captured_at=draw(maybe(times)),
        **draw(st.sampled_from(places)),
    )


@st.composite
def acks(draw: st.DrawFn) -> DeviceAck:
    stream_id: UUID | None = draw(maybe(uuids))
    event_acks = st.builds(
        EventAck, event_id=uuids, result=st.sampled_from(["stored", "duplicate", "rejected"]), code=maybe(ids)
    )
    return DeviceAck(
        epoch=draw(uuids),
        ts=draw(times),
        stream_id=stream_id,
        acked_seq=draw(counts) if stream_id else 0,
        received=draw(st.lists(ranges, max_size=5)) if stream_id else [],
        events=draw(st.lists(event_acks, max_size=5)),
    )


statuses = st.builds(
    DeviceStatus,
    state=st.sampled_from(["online", "offline"]),
    software_version=maybe(texts),
    stream_id=maybe(uuids),
    boot_id=maybe(uuids),
    epoch=maybe(uuids),
    uptime_seconds=maybe(figures),
    spool_bytes=maybe(counts),
    spool_bytes_max=maybe(counts),
    segments_open=maybe(counts),
    segments_closed=maybe(counts),
    oldest_sample_age_seconds=maybe(figures),
    written_bytes_per_sample=maybe(figures),
    last_captured_seq=maybe(counts),
    last_published_seq=maybe(counts),
    last_acked_seq=maybe(counts),
    dropped_count=maybe(counts),
    dropped_ranges=st.lists(ranges.map(lambda ends: LossRange(first_seq=ends[0], last_seq=ends[1])), max_size=3),
    not_captured_count=maybe(counts),
    replay_state=maybe(st.sampled_from(["idle", "draining"])),
    replay_msgs_per_sec=maybe(figures),
    replay_bytes_per_sec=maybe(figures),
    drain_seconds_estimated=maybe(figures),
    runway_seconds=maybe(figures),
    faulty_sensors=st.lists(ids, max_size=3),
    pictures_waiting_count=maybe(counts),
    rejected_count=maybe(counts),
    failed_sessions_count=maybe(counts),
    failed_sessions=st.lists(st.builds(FailedSession, uuids, texts), max_size=3).map(tuple),
    unweighed_count=maybe(counts),
    upload_trouble=maybe(texts),
)
presign_requests = st.builds(
    PresignRequest,
    tenant_id=ids,
    farm_id=ids,
    barn_id=ids,
    device_id=device_ids,
    captured_at=times,
    content_type=st.sampled_from(["image/jpeg", "image/png", "image/webp"]),
    station_id=maybe(ids),
    session_id=maybe(uuids),
    trace_id=maybe(trace_ids),
    content_length=maybe(st.integers(1, 2**53 - 1)),
    sha256=maybe(sha256s),
)
event_results = st.builds(
    EventResult,
    status=st.sampled_from(["accepted", "duplicate", "rejected"]),
    event_id=maybe(uuids),
    code=maybe(ids),
    message=maybe(texts),
)

PAYLOADS: dict[type[msgspec.Struct], st.SearchStrategy[Any]] = {
    Reading: st.builds(Reading, value=values, unit=units, metric_type=maybe(metrics)),
    TelemetryBatch: batches(),
    TelemetryBatchIngested: batches(TelemetryBatchIngested),
    TelemetryLoss: losses(),
    TelemetryIngested: st.builds(TelemetryIngested, metric_type=metrics, metric_value=values, unit=units),
    TelemetryAggregated: aggregates(),
    DeviceStatus: statuses,
    StationSessionCreated: st.builds(StationSessionCreated, batch_id=maybe(ids), initial_weight_kg=maybe(weights)),
    StationSessionFinalized: st.builds(
        StationSessionFinalized, image_count=st.integers(0, 100_000), final_weight_kg=maybe(weights)
    ),
    StationSessionCancelled: st.builds(StationSessionCancelled, reason=maybe(texts)),
    WeightRecorded: st.builds(WeightRecorded, weight_kg=weights),
    ImageCaptured: st.builds(
        ImageCaptured,
        media_id=uuids,
        content_type=maybe(mime_types),
        size_bytes=maybe(sizes),
        sha256=maybe(sha256s),
    ),
    SessionCreated: st.builds(
        SessionCreated, status=st.just("created"), batch_id=maybe(ids), initial_weight_kg=maybe(weights)
    ),
    SessionFinalized: st.builds(
        SessionFinalized,
        status=st.just("finalized"),
        image_count=st.integers(0, 100_000),
        final_weight_kg=maybe(weights),
        inference_result_id=maybe(uuids),
        initial_weight_kg=maybe(weights),
        revision=event_counts,
    ),
    SessionCancelled: st.builds(
        SessionCancelled, status=st.just("cancelled"), reason=maybe(texts), revision=event_counts
    ),
    MediaStored: stored_media(),
    InferenceCompleted: st.builds(
        InferenceCompleted,
        inference_result_id=uuids,
        predicted_weight_kg=weights,
        confidence=st.floats(0, 1),
        model_version=texts.filter(bool),
        media_id=maybe(uuids),
        predicted_size=maybe(texts),
    ),
    SyncBatchSent: st.builds(SyncBatchSent, batch_id=ids, event_count=event_counts, edge_cluster_id=ids),
    SyncBatchAcked: st.builds(SyncBatchAcked, batch_id=ids, event_count=event_counts, status=st.just("acked")),
}
OTHERS: dict[type[msgspec.Struct], st.SearchStrategy[Any]] = {
    DeviceAck: acks(),
    PresignRequest: presign_requests,
    PresignAnswer: st.builds(
        PresignAnswer,
        upload_url=texts,
        media_id=uuids,
        expires_at=times,
        required_headers=st.dictionaries(texts, texts, max_size=4),
    ),
    EdgeBatchAnswer: st.builds(answer_of, maybe(ids), st.lists(event_results, max_size=5)),
}
MESSAGES = PAYLOADS | OTHERS


def test_every_payload_of_both_envelopes_is_tried_here() -> None:
    assert set(PAYLOADS) == set(DEVICE_PAYLOADS.values()) | set(BUS_PAYLOADS.values())


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@SOME
@given(data=st.data())
def test_a_message_is_understood_as_it_was_meant(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(MESSAGES[kind])
    text = encode(message)
    assert decode(kind, text, max_bytes=PLENTY) == message
    assert encode(decode(kind, text, max_bytes=PLENTY)) == text


@pytest.mark.parametrize("event_type", sorted(DEVICE_PAYLOADS))
@FEWER
@given(data=st.data())
def test_a_device_envelope_is_understood_with_its_payload(event_type: str, data: st.DataObject) -> None:
    payload = data.draw(PAYLOADS[DEVICE_PAYLOADS[event_type]])
    envelope = mqtt_envelope(
        payload,
        event_id=data.draw(uuids),
        event_type=event_type,
        tenant_id=data.draw(ids),
        device_id=data.draw(device_ids),
        ts=data.draw(times),
        trace_id=data.draw(maybe(trace_ids)),
        produced_at=data.draw(maybe(times)),
    )
    again = decode(MqttEnvelope, encode(envelope), max_bytes=PLENTY)
    assert again == envelope
    assert payload_of(again) == payload


@pytest.mark.parametrize("event_type", sorted(BUS_PAYLOADS))
@FEWER
@given(data=st.data())
def test_a_bus_envelope_is_understood_with_its_payload_alone_and_in_a_batch(
    event_type: str, data: st.DataObject
) -> None:
    payload = data.draw(PAYLOADS[BUS_PAYLOADS[event_type]])
    envelope = bus_envelope(
        payload,
        event_id=data.draw(uuids),
        event_type=event_type,
        tenant_id=data.draw(ids),
        occurred_at=data.draw(times),
        farm_id=data.draw(maybe(ids)),
        barn_id=data.draw(maybe(ids)),
        device_id=data.draw(maybe(device_ids)),
        session_id=data.draw(maybe(uuids)),
        trace_id=data.draw(maybe(trace_ids)),
    )
    text = encode(envelope)
    batch = EdgeBatch(events=[msgspec.Raw(text)] * 2, batch_id=data.draw(ids), tenant_id=data.draw(maybe(ids)))
    assert decode_edge_batch(encode(batch)) == batch
    for event in (text, *decode_edge_batch(encode(batch)).events):
        again = decode(BusEnvelope, event, max_bytes=PLENTY)
        assert again == envelope
        assert payload_of(again) == payload


@SOME
@given(data=st.data(), batch=batches())
def test_runs_of_a_batch_keep_each_sample_at_its_sequence(data: st.DataObject, batch: TelemetryBatch) -> None:
    first = data.draw(st.integers(batch.seq0, batch.last_seq))
    last = data.draw(st.integers(first, batch.last_seq))
    pack = pack_of(batch, first, last)
    at = {batch.seq0 + i: sample for i, sample in enumerate(zip(batch.t, batch.c, batch.v, strict=True))}
    assert (pack.seq0, pack.last_seq, pack.count) == (first, last, last - first + 1)
    assert list(zip(pack.t, pack.c, pack.v, strict=True)) == [at[seq] for seq in range(first, last + 1)]
    assert decode(TelemetryBatchIngested, encode(pack), max_bytes=PLENTY) == pack


@SOME
@given(kind=st.sampled_from(list(MESSAGES)), data=st.data())
def test_a_field_of_next_year_is_skipped(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(MESSAGES[kind])
    later = b'{"added_next_year":{"a":[1,null,"x"]},' + encode(message)[1:].lstrip()
    later = later.replace(b",}", b"}", 1) if encode(message) == b"{}" else later
    assert decode(kind, later, max_bytes=PLENTY) == message


@SOME
@given(time=times)
def test_a_time_of_any_zone_leaves_as_utc(time: datetime) -> None:
    loss = TelemetryLoss(stream_id=UUID(int=1), first_seq=1, last_seq=1, count=1, reason="test", dropped_at=time)
    assert loss.dropped_at == time
    assert loss.dropped_at.tzinfo is UTC
    assert msgspec.json.decode(encode(loss))["dropped_at"].endswith("Z")


def test_the_widest_batch_has_room_for_its_channels() -> None:
    wide = [Channel(metric=f"m{i}", unit="C", sensor=f"s{i}") for i in range(CHANNELS_MAX)]
    batch = TelemetryBatch(
        stream_id=UUID(int=1),
        boot_id=UUID(int=2),
        lane="live",
        seq0=1,
        time_quality=0,
        channels=wide,
        t=[0] * CHANNELS_MAX,
        c=list(range(CHANNELS_MAX)),
        v=[0.5] * CHANNELS_MAX,
    )
    assert decode(TelemetryBatch, encode(batch), max_bytes=PLENTY) == batch
