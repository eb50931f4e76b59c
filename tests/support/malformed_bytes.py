"""Bytes that are no message: wrong encodings, broken JSON, characters that cannot be stored, and plain junk."""

import random
from collections.abc import Iterator
from typing import Final

Case = tuple[str, bytes, str]
"""A name, the payload, and the reason with which it is to be refused."""

NOT_UTF8: Final = {
    "a lone continuation": b"\x80",
    "two continuations": b"\xbf\xbf",
    "an overlong slash": b"\xc0\xaf",
    "an overlong NUL": b"\xc0\x80",
    "two bytes, cut": b"\xc3",
    "three bytes, cut": b"\xe2\x82",
    "four bytes, cut": b"\xf0\x9f\x92",
    "an encoded surrogate": b"\xed\xa0\x80",
    "beyond the last character": b"\xf4\x90\x80\x80",
    "a byte that is never used": b"\xfe",
    "latin-1": b"\xfc",
}
JUNK_SEED: Final = 4
MESSAGE_BYTES_MAX: Final = 256 * 1024


def wrong_encodings(good: bytes) -> Iterator[Case]:
    """Every kind of wrong byte in every kind of place."""
    inside_a_name = good.index(b'"event_id"') + 3
    inside_a_string = good.index(b"trace-1") + 2
    inside_the_payload = good.index(b'"payload"') + len(b'"payload": {"') + 1
    between = good.index(b": ") + 2
    places = {
        "first": 0, "in a name": inside_a_name, "in a string": inside_a_string, "in the payload": inside_the_payload,
        "between": between, "last": len(good),
    }  # fmt: skip
    for kind, data in NOT_UTF8.items():
        for place, at in places.items():
            yield f"{kind}, {place}", good[:at] + data + good[at:], "not_utf8"


def other_encodings(good: bytes) -> Iterator[Case]:
    text = good.decode()
    yield "utf-8 with a byte order mark", b"\xef\xbb\xbf" + good, "not_json"
    yield "utf-16 le", text.encode("utf-16-le"), "not_json"
    yield "utf-16 be", text.encode("utf-16-be"), "not_json"
    yield "utf-16 with its mark", text.encode("utf-16"), "not_utf8"
    yield "utf-32 le", text.encode("utf-32-le"), "not_json"
    yield "utf-32 be", text.encode("utf-32-be"), "not_json"
    yield "utf-32 with its mark", text.encode("utf-32"), "not_utf8"
    yield "ebcdic", text.encode("cp500"), "not_utf8"


def broken_json(good: bytes) -> Iterator[Case]:
    for eighth in range(1, 8):
        yield f"cut after {eighth}/8", good[: len(good) * eighth // 8], "not_json"
    yield "cut before its end", good[:-1], "not_json"
    yield "a second document", good + good, "not_json"
    for tail in (b"}", b"]", b",", b"x", b"\0", b"//", b"{}"):
        yield f"{tail!r} after its end", good + tail, "not_json"
    for head in (b",", b"]", b"\0", b"x", b")]}',\n", b"callback(", b"\x1b[2J"):
        yield f"{head!r} before its beginning", head + good, "not_json"
    yield "single quotes", good.replace(b'"', b"'"), "not_json"
    yield "no quotes", good.replace(b'"', b""), "not_json"
    yield "a comma too many", good[:-1] + b",}", "not_json"
    yield "no comma", good.replace(b", ", b" ", 1), "not_json"
    yield "no colon", good.replace(b": ", b" ", 1), "not_json"
    yield "a comment", good[:1] + b"/* hello */" + good[1:], "not_json"
    yield "a number as a name", b"{1: 2, " + good[1:], "not_json"


def wrong_characters(good: bytes) -> Iterator[Case]:
    at = good.index(b"trace-1") + 2
    for number in range(32):
        yield f"control character {number} in a string", good[:at] + bytes([number]) + good[at:], "not_json"
    for escape in (b"\\x41", b"\\u12 ", b"\\uzzzz", b"\\", b"\\8", b"\\U00000041"):
        yield f"{escape!r} in a string", good[:at] + escape + good[at:], "not_json"
    places = {"a string": at, "a name": good.index(b'"event_id"') + 3, "the payload": good.rindex(b'"') - 1}
    for place, here in places.items():
        for escape, code in (
            (b"\\u0000", "nul_character"), (b"\\ud83d", "lone_surrogate"), (b"\\udc00", "lone_surrogate"),
            (b"\\udc00\\ud83d", "lone_surrogate"), (b"\\uD83D x", "lone_surrogate"), (b"\\ud83d\\\\udca9", "lone_surrogate"),
        ):  # fmt: skip
            yield f"{escape!r} in {place}", good[:here] + escape + good[here:], code


def too_deep(good: bytes) -> Iterator[Case]:
    """In a field that nobody reads: nested too deep is refused before anybody asks what it means."""
    for levels in (32, 100, 1000, 10_000):
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")):
            value = opening * levels + b"1" + closing * levels
            yield f"{levels} levels of {opening!r}", good[:-1] + b', "more": ' + value + b"}", "too_deep"
    yield "brackets that never close", b"[" * 100_000, "too_deep"
    yield "braces that never close", b'{"a":' * 10_000, "too_deep"


def names_given_twice(good: bytes) -> Iterator[Case]:
    """The last one counts, for whoever sends both hoping that one is checked and the other believed."""
    for name, value, code in (
        ("tenant_id", '"other"', "topic_mismatch"), ("device_id", '"node-9"', "topic_mismatch"),
        ("event_type", '"device.status.old"', "topic_mismatch"), ("schema_version", '"2.0"', "unsupported_schema_version"),
        ("event_id", "null", "schema"), ("ts", '"then"', "schema"), ("payload", "[]", "schema"), ("payload", "{}", "schema"),
    ):  # fmt: skip
        yield f"{name} twice, {value}", good[:-1] + f', "{name}": {value}}}'.encode(), code


def junk() -> Iterator[Case]:
    for text in (
        "",
        " ",
        "\n",
        "null",
        "true",
        "0",
        '""',
        '"x"',
        "[]",
        "{}",
        "[{}]",
        "-",
        "NaN",
        "{",
        "}",
        '"',
        "%s",
        "<xml/>",
    ):
        code = "schema" if text in ("null", "true", "0", '""', '"x"', "[]", "{}", "[{}]") else "not_json"
        yield f"only {text!r}", text.encode(), code
    rng = random.Random(JUNK_SEED)
    for size in (1, 2, 3, 7, 16, 64, 255, 1024, 4096, 65_535, 65_536, 65_537):
        # The first byte is one that no character begins with: whatever follows, this is not UTF-8.
        yield f"{size} random bytes", b"\xff" + rng.randbytes(size - 1), "not_utf8"
    yield "gzip", bytes.fromhex("1f8b0800") + rng.randbytes(100), "not_utf8"
    yield "a picture", b"\x89PNG\r\n\x1a\n" + rng.randbytes(100), "not_utf8"
    yield "zeros", bytes(1000), "not_json"


def large(good: bytes, room_bytes: int) -> Iterator[Case]:
    """As long as the broker lets pass, so that only their content speaks against them."""
    yield "a long string", good[:-1] + b', "trace_id": "' + b"x" * (room_bytes - len(good) - 16) + b'"}', "schema"
    yield "spaces", b" " * room_bytes, "not_json"
    yield "digits", b"1" * room_bytes, "schema"
    yield "a long name", b'{"' + b"x" * (room_bytes - 6) + b'":1}', "schema"
    yield "many values", (b"[" + b"0," * ((room_bytes - 2) // 2 - 1) + b"0]"), "schema"
