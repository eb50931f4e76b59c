"""More than a thousand kinds of message that the gateway must refuse, each with the reason that it must give.

The same ones in every run: whoever sees one fail finds it again by its name."""

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from support import malformed_bytes, malformed_fields
from support.malformed_fields import Text, encoded, one_wrong_field

SEED: Final = 20_261_116
PLACE: Final = "demo/farm-1/barn-1/node-1"
PACKET_BYTES_MAX: Final = 262_144
"""What our broker lets pass: header, topic and payload together."""

SESSION: Final = "0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e60"
_MEDIA: Final = "0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e61"
_STREAM: Final = "0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e5f"
_AT: Final = "2026-11-16T08:00:00Z"
_CHANNELS: Final = [{"metric": "temperature", "unit": "C", "sensor": "t1"}, {"metric": "humidity", "unit": "%"}]


class Malformed(NamedTuple):
    kind: str
    topic: str
    payload: bytes
    code: str


class Kind(NamedTuple):
    """One type of device message: where it goes, a good payload, and what its fields may not hold."""

    topic: str
    event_type: str
    payload: Mapping[str, Any]
    fields: Mapping[str, Any]


KINDS: Final = (
    Kind(
        f"iot/telemetry/{PLACE}/temperature",
        "telemetry.reading",
        {"value": 26.4, "metric_type": "temperature", "unit": "C"},
        malformed_fields.READING,
    ),
    Kind(
        f"iot/telemetry/{PLACE}/batch",
        "telemetry.batch",
        {
            "stream_id": _STREAM, "boot_id": _STREAM, "lane": "live", "seq0": 1001, "time_quality": 2, "channels": _CHANNELS,
            "t": [1_790_000_000_000_000, 1_790_000_001_000_000, 1_790_000_002_000_000], "c": [0, 1, 0], "v": [26.4, 61.0, 26.5],
        },
        malformed_fields.BATCH,
    ),
    Kind(
        f"iot/event/{PLACE}/telemetry.loss",
        "telemetry.loss",
        {
            "stream_id": _STREAM, "first_seq": 16, "last_seq": 25, "count": 10, "reason": "spool_cap", "dropped_at": _AT,
            "first_ts": _AT, "last_ts": _AT,
        },
        malformed_fields.LOSS,
    ),
    Kind(
        f"iot/status/{PLACE}",
        "device.status",
        {"state": "online", "software_version": "0.1.0", "uptime_seconds": 5.5, "spool_bytes": 7, "replay_state": "idle"},
        malformed_fields.STATUS,
    ),
)  # fmt: skip


def _of_session(event_type: str, payload: Mapping[str, Any], fields: Mapping[str, Any]) -> Kind:
    return Kind(f"iot/weighvision/{PLACE}/session/{SESSION}/{event_type}", event_type, payload, fields)


_IMAGE: Final = {"media_id": _MEDIA, "content_type": "image/jpeg", "size_bytes": 204800, "sha256": "a" * 64}
STATION_KINDS: Final = (
    _of_session(
        "weighvision.session.created", {"batch_id": "batch-7", "initial_weight_kg": 120.5}, malformed_fields.CREATED
    ),
    _of_session("weighvision.weight.recorded", {"weight_kg": 120.5}, malformed_fields.WEIGHT),
    _of_session("weighvision.image.captured", _IMAGE, malformed_fields.IMAGE),
    _of_session(
        "weighvision.session.finalized", {"image_count": 3, "final_weight_kg": 121.0}, malformed_fields.FINALIZED
    ),
    _of_session("weighvision.session.cancelled", {"reason": "the animal left"}, malformed_fields.CANCELLED),
    Kind(f"iot/event/{PLACE}/weighvision.image.captured", "weighvision.image.captured", _IMAGE, malformed_fields.IMAGE),
)


def good_message(kind: Kind, event_id: UUID, /, **fields: Any) -> bytes:
    """What a case is made of by changing one thing."""
    envelope = {
        "schema_version": "1.0", "event_id": str(event_id), "trace_id": "trace-1", "tenant_id": "demo", "device_id": "node-1",
        "event_type": kind.event_type, "ts": _AT, "content_hash": "sha256:00", "retry_count": 0, "produced_at": _AT,
        "payload": kind.payload,
    }  # fmt: skip
    return encoded(envelope | fields)


def malformed_messages() -> list[Malformed]:
    """All that a broker delivers."""
    rng = random.Random(SEED)
    cases = [*_wrong_fields(rng), *_wrong_bytes(rng), *_wrong_speakers(rng), *_wrong_topics(rng)]
    return [*cases, *_wrong_station_messages(rng), *_wrong_events(rng)]


def undeliverable_messages() -> list[Malformed]:
    """What our broker keeps back by itself, and another one might not."""
    rng = random.Random(SEED + 1)
    kind = KINDS[0]
    good = good_message(kind, _new_id(rng))
    topics = [
        f"iot/telemetry/{PLACE}/+", f"iot/telemetry/{PLACE}/#", "iot/telemetry/#", "#", "", "/", f"iot/telemetry/{PLACE}/a\0b",
        "iot/telemetry/demo/farm-1/barn-1/node\0-1/temperature", f"iot/telemetry/{PLACE}/\ufffe", f"iot/telemetry/{PLACE}/a\nb",
        f"iot/telemetry/{PLACE}/\ud800", "\N{REPLACEMENT CHARACTER}", "iot/" + "/".join("x" * 300), "x" * 65_535, "$SYS/broker",
    ]  # fmt: skip
    sizes = (malformed_bytes.MESSAGE_BYTES_MAX + 1, 1_000_000)
    return [
        *(Malformed(f"topic {ascii(topic)[:60]}", topic, good, "bad_topic") for topic in topics),
        *(Malformed(f"{size} bytes", kind.topic, good.ljust(size), "too_large") for size in sizes),
    ]


def _wrong_fields(rng: random.Random) -> Iterator[Malformed]:
    for kind in KINDS:
        name = kind.event_type
        for case, fields, code in one_wrong_field(malformed_fields.ENVELOPE):
            yield Malformed(f"{name}: {case}", kind.topic, good_message(kind, _new_id(rng), **fields), code)
        for case, fields, code in one_wrong_field(kind.fields):
            payload = dict(kind.payload) | fields
            yield Malformed(
                f"{name}: payload.{case}", kind.topic, good_message(kind, _new_id(rng), payload=payload), code
            )
    batch = KINDS[1]
    for case, fields, code in one_wrong_field(malformed_fields.CHANNEL):
        payload = dict(batch.payload) | {"channels": [_CHANNELS[0] | fields, _CHANNELS[1]]}
        yield Malformed(f"channel: {case}", batch.topic, good_message(batch, _new_id(rng), payload=payload), code)
    many = dict(batch.payload) | {"channels": [_CHANNELS[0]] * 1025}
    yield Malformed("1025 channels", batch.topic, good_message(batch, _new_id(rng), payload=many), "schema")


def _wrong_bytes(rng: random.Random) -> Iterator[Malformed]:
    for kind in KINDS:
        good = good_message(kind, _new_id(rng))
        for damage in (
            malformed_bytes.wrong_encodings, malformed_bytes.other_encodings, malformed_bytes.broken_json,
            malformed_bytes.wrong_characters, malformed_bytes.too_deep, malformed_bytes.names_given_twice,
        ):  # fmt: skip
            for case, payload, code in damage(good):
                yield Malformed(f"{kind.event_type}: {case}", kind.topic, payload, code)
        for case, payload, code in malformed_bytes.junk():
            yield Malformed(f"{kind.event_type}: {case}", kind.topic, payload, code)
    reading = KINDS[0]
    room_bytes = PACKET_BYTES_MAX - len(reading.topic) - 16
    for case, payload, code in malformed_bytes.large(good_message(reading, _new_id(rng)), room_bytes):
        yield Malformed(f"large: {case}", reading.topic, payload, code)


def _wrong_speakers(rng: random.Random) -> Iterator[Malformed]:
    """Well-formed, and not what this device may say, or not here."""
    for kind in KINDS:
        name = kind.event_type
        for field, value in (
            ("tenant_id", "other"), ("tenant_id", "Demo"), ("tenant_id", "demo."), ("device_id", "node-9"),
            ("device_id", "NODE-1"), ("event_type", "telemetry.unheard"), ("event_type", f"{name}.v2"),
            ("event_type", name.upper()),
        ):  # fmt: skip
            message = good_message(kind, _new_id(rng), **{field: value})
            yield Malformed(f"{name}: {field} {value} in the body", kind.topic, message, "topic_mismatch")
        for other in KINDS:
            if other is not kind:
                message = good_message(kind, _new_id(rng))
                yield Malformed(f"{name} on the topic of {other.event_type}", other.topic, message, "topic_mismatch")
        for place, tenant, device in (
            ("other/farm-1/barn-1/node-1", "other", "node-1"), ("demo/farm-2/barn-1/node-1", "demo", "node-1"),
            ("demo/farm-1/barn-2/node-1", "demo", "node-1"), ("demo/farm-1/barn-1/node-0", "demo", "node-0"),
            ("demo/farm-1/barn-1/revoked-1", "demo", "revoked-1"), ("Demo/farm-1/barn-1/node-1", "Demo", "node-1"),
        ):  # fmt: skip
            message = good_message(kind, _new_id(rng), tenant_id=tenant, device_id=device)
            topic = kind.topic.replace(PLACE, place)
            yield Malformed(f"{name} of {place}", topic, message, "not_provisioned")


def _wrong_station_messages(rng: random.Random) -> Iterator[Malformed]:
    """What is wrong with the envelope is wrong on every topic: here it is the payload, the session and the speaker."""
    for number, kind in enumerate(STATION_KINDS):
        name = f"{number} {kind.event_type}"
        for case, fields, code in one_wrong_field(kind.fields):
            message = good_message(kind, _new_id(rng), payload=dict(kind.payload) | fields)
            yield Malformed(f"{name}: payload.{case}", kind.topic, message, code)
        for field, value in (("tenant_id", "other"), ("device_id", "node-9"), ("event_type", "weighvision.unheard")):
            message = good_message(kind, _new_id(rng), **{field: value})
            # Whose station it is, the register says.
            is_for_the_register = field == "device_id" and kind.topic.startswith("iot/weighvision/")
            code = "not_provisioned" if is_for_the_register else "topic_mismatch"
            yield Malformed(f"{name}: {field} {value} in the body", kind.topic, message, code)
        for place, tenant, device in (
            ("other/farm-1/barn-1/node-1", "other", "node-1"), ("demo/farm-1/barn-2/node-1", "demo", "node-1"),
            ("demo/farm-1/barn-1/node-0", "demo", "node-0"), ("demo/farm-1/barn-1/revoked-1", "demo", "revoked-1"),
        ):  # fmt: skip
            message = good_message(kind, _new_id(rng), tenant_id=tenant, device_id=device)
            yield Malformed(f"{name} of {place}", kind.topic.replace(PLACE, place), message, "not_provisioned")
    kind = STATION_KINDS[1]
    for session in (
        "", "..", ".", "7", "not-a-uuid", SESSION[:-1], f"{SESSION}0", f"{{{SESSION}}}", SESSION.replace("-", ""),
        f"urn:uuid:{SESSION}", "\u0661" * 36, SESSION.replace("0", "\uff10"), f"{SESSION}\u200b", "%2e%2e", "x" * 5000,
    ):  # fmt: skip
        topic = kind.topic.replace(SESSION, session)
        name = f"session {ascii(session)[:40]} of {len(session)}"
        yield Malformed(name, topic, good_message(kind, _new_id(rng)), "bad_topic")
    for levels in ("", "/session", f"/session/{SESSION}", f"/sessions/{SESSION}/{kind.event_type}"):
        topic = f"iot/weighvision/{PLACE}{levels}"
        yield Malformed(f"levels {levels or 'none'}", topic, good_message(kind, _new_id(rng)), "bad_topic")
    for station in ("..", ".a", "\u00fc", "\u202e", "a b", "telemetry", "weighvision", "x" * 65):
        topic = kind.topic.replace("/node-1/", f"/{station}/")
        yield Malformed(f"station {ascii(station)[:20]}", topic, good_message(kind, _new_id(rng)), "bad_topic")
    for event_type in ("weighvision.session.opened", "door.opened", "weighvision", "media.stored"):
        topic = kind.topic.replace(kind.event_type, event_type)
        message = good_message(kind, _new_id(rng), event_type=event_type)
        yield Malformed(f"{event_type} of a session", topic, message, "unknown_event_type")


def _wrong_events(rng: random.Random) -> Iterator[Malformed]:
    """An integrator may send what he likes, under a name that is not ours and in JSON that can be kept."""
    for event_type in (
        "telemetry.reading", "telemetry.batch", "telemetry.aggregated", "telemetry", "telemetry.anything", "device.status",
        "weighvision.session.created", "weighvision.session.finalized", "weighvision.weight.recorded", "weighvision.x",
        "media.stored", "inference.completed", "sync.batch.sent", "sync.batch.acked", "sync",
    ):  # fmt: skip
        message = good_message(KINDS[0], _new_id(rng), event_type=event_type)
        yield Malformed(f"event {event_type}", f"iot/event/{PLACE}/{event_type}", message, "reserved_event_type")
    door = Kind(f"iot/event/{PLACE}/door.opened", "door.opened", {"door": 3}, {})
    for case, payload, code in (
        ("too large", {"text": "x" * 65_536}, "too_large"),
        ("numbers that grow", {"n": [Text("1e308")] * 500}, "too_large"),
        ("numbers that shrink", {"n": [Text("1e-16000")] * 10}, "too_large"),
        ("a long exponent", {"n": Text("1e-" + "9" * 5000)}, "too_large"),
        ("a number that is none", {"n": Text("1e999")}, "schema"),
        ("NaN", {"n": Text("NaN")}, "not_json"),
        ("a number that begins with 0", {"n": Text("007")}, "not_json"),
        ("a list", [], "schema"),
    ):
        yield Malformed(f"event with {case}", door.topic, good_message(door, _new_id(rng), payload=payload), code)


def _wrong_topics(rng: random.Random) -> Iterator[Malformed]:
    for kind in KINDS:
        levels = kind.topic.split("/")
        topics = ["/".join(levels[:end]) for end in range(2, len(levels))]
        topics += [f"{kind.topic}/", f"{kind.topic}/more", f"{kind.topic}/" + "/".join("x" * 100)]
        for at in range(2, 6):
            for name in ("", ".a", "a b", "\u00fc", "\u202e", "x" * 65, "x" * 5000, "a%2Fb", "$a", "\U0001f414"):
                topics.append("/".join([*levels[:at], name, *levels[at + 1 :]]))
        topics += [
            "/".join([*levels[:5], device, *levels[6:]]) for device in ("telemetry", "event", "status", "weighvision")
        ]
        for topic in topics:
            name = f"{kind.event_type}: topic {ascii(topic)[:90]} of {len(topic)}"
            yield Malformed(name, topic, good_message(kind, _new_id(rng)), "bad_topic")
    for last in ("x" * 65, "a b", "\u00e9", ".a", "$x"):
        message = good_message(KINDS[0], _new_id(rng))
        yield Malformed(f"metric {ascii(last)[:20]}", f"iot/telemetry/{PLACE}/{last}", message, "bad_topic")
    for last in ("x" * 129, "a..b", "a b", "\u00e9", ".a", "a.", "$x"):
        message = good_message(KINDS[2], _new_id(rng))
        yield Malformed(f"event type {ascii(last)[:20]}", f"iot/event/{PLACE}/{last}", message, "bad_topic")


def _new_id(rng: random.Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)
