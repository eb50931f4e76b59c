"""What each field of a device's message may hold, and values that it may not: one message with one wrong field each.

Written down by hand, and not derived from the structs that it tests: a rule that goes missing there must show here."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

ABSENT: Final = object()
SEQ_END: Final = 2**62
SAMPLES_MAX: Final = 5000


class Text(str):
    """JSON that Python's encoder would not write, as it stands."""

    __slots__ = ()


class Wrong(NamedTuple):
    value: Any
    code: str = "schema"


def wrong(*values: Any, code: str = "schema") -> list[Wrong]:
    return [Wrong(value, code) for value in values]


def encoded(message: Mapping[str, Any]) -> bytes:
    """As JSON, with every `Text` put in unchanged."""
    texts: list[str] = []

    def put(value: Any) -> Any:
        if isinstance(value, Text):
            texts.append(str(value))
            return f"@text-{len(texts) - 1}@"
        if isinstance(value, Mapping):
            return {name: put(item) for name, item in value.items() if item is not ABSENT}
        return [put(item) for item in value] if isinstance(value, list) else value

    data = json.dumps(put(message))
    for number, text in enumerate(texts):
        data = data.replace(f'"@text-{number}@"', text)
    return data.encode()


NO_TEXT: Final = wrong(7, 1.5, True, [], {}, ["a"], {"a": "b"})
REQUIRED: Final = wrong(ABSENT, None)
NOT_JSON: Final = wrong(
    Text("NaN"), Text("Infinity"), Text("-Infinity"), Text("nan"), Text("0x10"), Text("1_000"), Text("+1"), Text("01"),
    Text(".5"), Text("1."), Text("1e"), Text("True"), Text("undefined"), Text("'1'"), code="not_json",
)  # fmt: skip
NO_NUMBER: Final = [
    *wrong("", "1", "one", True, False, [], {}, [1], {"a": 1}, Text("1e999"), Text("-1e999")),
    *NOT_JSON,
]
NO_FIGURE: Final = [*NO_NUMBER, *wrong(-1, -0.001)]
NO_COUNT: Final = [*NO_NUMBER, *wrong(-1, 1.5, SEQ_END, 2**63, 2**64, 10**40, 1e30)]
NO_SEQ: Final = [*NO_COUNT, *wrong(0)]
NO_UUID: Final = [
    *NO_TEXT,
    *wrong("", "7", "not-a-uuid", "0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e5", "0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e5g"),
    *wrong("0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e5f0", "{0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e5f}"),
    *wrong("urn:uuid:0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e5f", "0190d5a27-c1f-7c3e-9b1a-2f6f3c9d4e5f", "\uff10" * 32),
]
NO_ID: Final = [
    *NO_TEXT,
    *wrong("", " ", ".hidden", "-dash", "_line", "a b", "a/b", "a+b", "a#b", "a\\b", "a:b", "a\n", "a\tb", "\u00fcber"),
    *wrong("a\u202eb", "\u0661", "x" * 65, "x" * 10_000, "../../etc"),
]
NO_TIME: Final = [
    *NO_TEXT,
    *wrong(0, 1_790_000_000, "", "now", "2026-11-16", "2026-11-16T08:00:00", "2026-13-01T00:00:00Z"),
    *wrong("2026-02-30T00:00:00Z", "2026-11-16T25:00:00Z", "2026-11-16T08:61:00Z", "16.11.2026 08:00", "10000-01-01T00:00:00Z"),
    *wrong("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "-2026-11-16T08:00:00Z", "0000-01-01T00:00:00Z"),
    *wrong("9999-12-30T23:59:59-23:59", "2026-11-16T08:00:00+24:00", "1790000000"),
]  # fmt: skip
NO_UNIT: Final = [*NO_TEXT, *wrong(None, "x" * 33, "\u00b0" * 33)]
LATER: Final = "unsupported_schema_version"

ENVELOPE: Final[Mapping[str, Sequence[Wrong]]] = {
    "schema_version": [*wrong(None, 1, 1.0, True, [], {}), *wrong("2.0", "2", "0.9", "1", "1.", "1.x", "", "v1.0", code=LATER),
                       *wrong("1.0 ", "1,0", "1.12345", "\uff11.0", "1.0.0", "x" * 5000, code=LATER)],
    "event_id": [*REQUIRED, *NO_UUID],
    "trace_id": [*NO_TEXT, *wrong("", " ", "a b", "a\n", "tr\u00e4ce", "x" * 129)],
    "tenant_id": [*REQUIRED, *NO_ID],
    "device_id": [*REQUIRED, *NO_ID, *wrong("telemetry", "event", "weighvision", "status")],
    "event_type": [*REQUIRED, *NO_TEXT, *wrong("", ".", "a..b", ".a", "a.", "a b", "a/b", "a.#", "\u00e4.b", "x" * 129)],
    "ts": [*REQUIRED, *NO_TIME],
    "content_hash": [*NO_TEXT, *wrong("", "x" * 129)],
    "retry_count": [*NO_NUMBER, *wrong(-1, 1.5, 2**31, 2**63, 2**64)],
    "produced_at": NO_TIME,
    "payload": [*REQUIRED, *wrong(7, 1.5, True, [], "", "{}", [{}], [[]], Text('"\\u007b}"'))],
}  # fmt: skip

READING: Final[Mapping[str, Sequence[Wrong]]] = {
    "value": [*REQUIRED, *NO_NUMBER],
    "metric_value": [*NO_NUMBER, *wrong(26.5, -26.4)],
    "metric_type": [*NO_ID, *wrong("batch"), *wrong("humidity", "Temperature", "temperature.", code="topic_mismatch")],
    "unit": NO_UNIT,
}
BATCH: Final[Mapping[str, Sequence[Wrong]]] = {
    "stream_id": [*REQUIRED, *NO_UUID],
    "boot_id": [*REQUIRED, *NO_UUID],
    "lane": [*REQUIRED, *NO_TEXT, *wrong("", "fast", "Live", "live ", "replay\n")],
    "seq0": [*REQUIRED, *NO_SEQ, *wrong(SEQ_END - 1, SEQ_END - 3)],
    "time_quality": [*REQUIRED, *NO_NUMBER, *wrong(-1, 256, 1.5, 2**63)],
    "channels": [*REQUIRED, *wrong(7, "", "t", True, {}, [], [7], [None], ["t"], [[]], [{}], [{"unit": "C"}])],
    "t": [*REQUIRED, *wrong(7, "", {}, [], [1], [1, 2, 3, 4], ["1", "2", "3"], [1.5, 2, 3], [None, 2, 3], [True, 2, 3]),
          *wrong([2**63, 2, 3], [-(2**63), 2, 3], [2**64, 2, 3], [10**30, 2, 3], [-62_135_596_800_000_000, 2, 3]),
          *wrong([253_402_300_799_999_999, 2, 3], [1] * (SAMPLES_MAX + 1))],
    "c": [*REQUIRED, *wrong(7, "", {}, [], [0], [0, 1, 0, 1], ["0", "1", "0"], [0.5, 1, 0], [None, 1, 0], [True, 1, 0]),
          *wrong([-1, 1, 0], [2, 1, 0], [0, 1, 2**31], [0, 1, 2**63], [0, 1, 2**64], [0] * (SAMPLES_MAX + 1))],
    "v": [*REQUIRED, *wrong(7, "", {}, [], [1.0], [1.0, 2.0, 3.0, 4.0], ["1", 2.0, 3.0], [None, 2.0, 3.0], [True, 2.0, 3.0]),
          *wrong([Text("1e999"), 2, 3], [1, 2, Text("-1e999")], [[], 2, 3], [1.0] * (SAMPLES_MAX + 1)),
          *wrong([Text("NaN"), 2, 3], [1, Text("Infinity"), 3], [1, 2, Text("-Infinity")], code="not_json")],
}  # fmt: skip
CHANNEL: Final[Mapping[str, Sequence[Wrong]]] = {
    "metric": [*REQUIRED, *NO_ID, *wrong("batch")],
    "unit": NO_UNIT,
    "sensor": NO_ID,
}
LOSS: Final[Mapping[str, Sequence[Wrong]]] = {
    "stream_id": [*REQUIRED, *NO_UUID],
    "first_seq": [*REQUIRED, *NO_SEQ, *wrong(26)],
    "last_seq": [*REQUIRED, *NO_SEQ, *wrong(15)],
    "count": [*REQUIRED, *NO_SEQ, *wrong(11, 1000)],
    "reason": [*REQUIRED, *NO_ID],
    "dropped_at": [*REQUIRED, *NO_TIME],
    "first_ts": NO_TIME,
    "last_ts": NO_TIME,
}
NO_WEIGHT: Final = [*NO_FIGURE, *wrong(100_001, 1e9)]
NO_COUNT_OF_IMAGES: Final = [*NO_NUMBER, *wrong(-1, 1.5, 100_001, 2**31, 2**64)]
NO_REASON: Final = [*NO_TEXT, *wrong("x" * 201)]
CREATED: Final[Mapping[str, Sequence[Wrong]]] = {
    "batch_id": NO_ID,
    "initial_weight_kg": NO_WEIGHT,
}
WEIGHT: Final[Mapping[str, Sequence[Wrong]]] = {
    "weight_kg": [*REQUIRED, *NO_WEIGHT],
}
IMAGE: Final[Mapping[str, Sequence[Wrong]]] = {
    "media_id": [*REQUIRED, *NO_UUID],
    "content_type": [
        *NO_TEXT,
        *wrong("", "jpeg", "image/", "image/jpeg; q=1", "IMAGE/JPEG", "image/../x", "x" * 128, "image/jpeg\n"),
    ],
    "size_bytes": [*NO_NUMBER, *wrong(-1, 1.5, 2**53, 2**64)],
    "sha256": [*NO_TEXT, *wrong("", "ab", "g" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", "\uff10" * 64)],
}
FINALIZED: Final[Mapping[str, Sequence[Wrong]]] = {
    "image_count": [*REQUIRED, *NO_COUNT_OF_IMAGES],
    "final_weight_kg": NO_WEIGHT,
}
CANCELLED: Final[Mapping[str, Sequence[Wrong]]] = {"reason": NO_REASON}
_FAILED: Final = {"session_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0200", "reason": "too old"}
_RANGE: Final = {"first_seq": 1, "last_seq": 2}
STATUS: Final[Mapping[str, Sequence[Wrong]]] = {
    "state": [*REQUIRED, *NO_TEXT, *wrong("", "gone", "Online", "online ")],
    "software_version": [*NO_TEXT, *wrong("x" * 65)],
    "stream_id": NO_UUID,
    "boot_id": NO_UUID,
    "epoch": NO_UUID,
    "uptime_seconds": NO_FIGURE,
    "spool_bytes": NO_COUNT,
    "last_acked_seq": NO_COUNT,
    "unacked_count": NO_COUNT,
    "dropped_ranges": [*wrong(7, "", {}, [7], [None], [{}], [{"first_seq": 1}], [{"first_seq": 2, "last_seq": 1}], [_RANGE] * 65),
                       *wrong([_RANGE | {"first_seq": 0}], [_RANGE | {"last_seq": SEQ_END}], [_RANGE | {"last_seq": "2"}])],
    "replay_state": [*NO_TEXT, *wrong("", "busy", "Idle")],
    "runway_seconds": NO_FIGURE,
    "faulty_sensors": [*wrong(None, 7, "", {}, [7], [""], ["a/b"], ["x" * 65]), Wrong(["t1"] * 1025)],
    "pictures_waiting_count": NO_COUNT,
    "failed_sessions_count": NO_COUNT,
    "failed_sessions": [*wrong(7, "", {}, [7], [None], [{}], [_FAILED | {"session_id": "s"}], [_FAILED] * 65),
                        Wrong([_FAILED | {"reason": "x" * 301}])],
    "upload_trouble": [*NO_TEXT, *wrong("x" * 301)],
}  # fmt: skip


def one_wrong_field(fields: Mapping[str, Sequence[Wrong]]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A name for the case, what replaces the field, and the reason with which the message is to be refused."""
    for field, cases in fields.items():
        for number, (value, code) in enumerate(cases):
            yield f"{field} {number} {_shown(value)}", {field: value}, code


def _shown(value: Any) -> str:
    return "absent" if value is ABSENT else ascii(value)[:40]
