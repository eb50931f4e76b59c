"""Bytes to messages and back. Everything from outside passes through `decode` before anybody believes it.

Checked in this order, so that the cheap refusals come first: size, UTF-8, depth, characters that PostgreSQL cannot
store (NUL, lone surrogates), JSON, the message's own rules. A name given twice counts with its last value.
"""

import re
from datetime import UTC, datetime
from itertools import accumulate
from math import isfinite
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from farmiq.contracts.limits import DEPTH_MAX

T = TypeVar("T")

DETAIL_LENGTH_MAX: Final = 300
SCHEMA_VERSION: Final = "1.0"
_OUR_SCHEMA_VERSIONS: Final = re.compile(r"1\.[0-9]{1,4}")

_BRACKETS: Final = b"[]{}"
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(_BRACKETS + b'"'))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {}


class MalformedMessage(Exception):
    """The message will never be good: keep it with the reason, count it, and go on with the next one.

    `code` is stable and meant for counters and queries; `detail` is for a person and names the field.
    """

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail if len(detail) <= DETAIL_LENGTH_MAX else detail[: DETAIL_LENGTH_MAX - 1] + "…"
        super().__init__(f"{code}: {self.detail}")

    def __reduce__(self) -> tuple[type["MalformedMessage"], tuple[str, str]]:
        return MalformedMessage, (self.code, self.detail)


class Unencodable(Exception):
    """Our own code made a message that the wire cannot carry: NaN, a time that is not UTC, NUL or half a character."""


def decode(kind: type[T], data: bytes | msgspec.Raw, *, max_bytes: int) -> T:
    """The message, or `MalformedMessage`. Never anything else, whatever the bytes."""
    text = bytes(data)
    refuse_size(text, max_bytes)
    refuse_encoding(text)
    refuse_depth(text, DEPTH_MAX)
    refuse_characters(text)
    return parse(kind, text)


def parse(kind: type[T], data: bytes | msgspec.Raw) -> T:
    """Only the last step of `decode`, for bytes that have been through the others."""
    if kind not in _DECODERS:
        _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        message: T = _DECODERS[kind].decode(data)
    except msgspec.ValidationError as error:
        if "schema_version" in getattr(kind, "__struct_fields__", ()):
            _refuse_schema_version_of(data)
        raise MalformedMessage("schema", str(error)) from error
    except UnicodeDecodeError as error:
        raise MalformedMessage("not_utf8", f"{error.reason} in a string") from error
    except msgspec.DecodeError as error:
        raise MalformedMessage("not_json", _why_not_json(bytes(data), error)) from error
    return message


def encode(message: object) -> bytes:
    """RFC 3339 times in UTC with a `Z`, no NaN; fields in the order of the message's definition."""
    _refuse_values(message)
    try:
        data = msgspec.json.encode(message)
    except (TypeError, UnicodeEncodeError) as error:
        raise Unencodable(f"{type(message).__name__}: {error}") from error
    if _has_nul(data):
        raise Unencodable(f"{type(message).__name__} holds a NUL character, which PostgreSQL cannot store")
    return data


def refuse_size(data: bytes, max_bytes: int) -> None:
    if len(data) > max_bytes:
        raise MalformedMessage("too_large", f"{len(data)} bytes, at most {max_bytes} are allowed")


def refuse_encoding(data: bytes) -> None:
    """The parser itself skips payloads that are left raw, and would let wrong UTF-8 in them pass."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage("not_utf8", f"{error.reason} at byte {error.start}") from error


def refuse_depth(data: bytes, depth_max: int) -> None:
    """Counted without recursion and without parsing. Right up to the first byte that is not JSON, where parsing ends."""
    if data.count(b"[") + data.count(b"{") <= depth_max:
        return
    # Without escaped backslashes and then escaped quotes, every quote left begins or ends a string, and what stands
    # between the first and the second, the third and the fourth and so on is text.
    quoted = _hide_escaped_backslashes(data).replace(rb"\"", b"").translate(None, _NOT_STRUCTURE)
    brackets = b"".join(quoted.split(b'"')[::2])
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > depth_max:
        raise MalformedMessage("too_deep", f"nested more than {depth_max} levels")


def refuse_characters(data: bytes) -> None:
    if b"\\u" not in data:
        return
    if _has_nul(data):
        raise MalformedMessage("nul_character", "a string holds a NUL character, which cannot be stored")
    if _SURROGATE.search(_SURROGATE_PAIR.sub(b"", _hide_escaped_backslashes(data))):
        raise MalformedMessage("lone_surrogate", "a string holds half a surrogate pair, which is not a character")


def refuse_schema_version(version: str) -> None:
    if _OUR_SCHEMA_VERSIONS.fullmatch(version) is None:
        raise MalformedMessage("unsupported_schema_version", f"schema_version {version[:20]!r}, 1.x is understood here")


class _Versioned(Struct):
    schema_version: Any = SCHEMA_VERSION


def _refuse_schema_version_of(data: bytes | msgspec.Raw) -> None:
    """A message of a later schema rarely fits ours: say that it is later, and not which field happens to differ."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).schema_version
    except msgspec.DecodeError:
        return
    if isinstance(version, str):
        refuse_schema_version(version)


def _why_not_json(data: bytes, error: Exception) -> str:
    if b"NaN" in data or b"Infinity" in data:
        return f"{error}; NaN and Infinity are not JSON"
    return str(error) if data else "the message is empty"


def _has_nul(data: bytes) -> bool:
    return b"\\u0000" in data and b"\\u0000" in _hide_escaped_backslashes(data)


def _hide_escaped_backslashes(data: bytes) -> bytes:
    # In "\\u0000" the backslash is a character and the rest plain text. Spaces, because what stands on either side of
    # an escaped backslash must not come together: two halves of a surrogate pair would look whole.
    return data.replace(rb"\\", b"  ")


_HARMLESS = frozenset({str, int, bool, UUID, type(None)})


def _refuse_values(value: object) -> None:
    """The encoder would write NaN as null and a time in any zone as it stands: both change the message silently."""
    if type(value) in _HARMLESS:
        return  # nearly all of them; whether something is a struct is a slow question
    if isinstance(value, float | datetime):
        _refuse_scalar(value)
    elif isinstance(value, Struct):
        for field in value.__struct_fields__:
            _refuse_values(getattr(value, field))
    elif isinstance(value, dict):
        for item in value.values():
            _refuse_values(item)
    elif isinstance(value, list | tuple):
        _refuse_items(value)


def _refuse_scalar(value: float | datetime) -> None:
    if isinstance(value, datetime):
        if value.tzinfo is not UTC:
            raise Unencodable(f"{value.isoformat()} is not in UTC")
    elif not isfinite(value):
        raise Unencodable(f"{value} is not a number that JSON can carry")


def _refuse_items(items: list[Any] | tuple[Any, ...]) -> None:
    # A batch has thousands of numbers of one type: one look at the types spares a call for each of them.
    kinds = set(map(type, items))
    if kinds == {float}:
        if not all(map(isfinite, items)):
            raise Unencodable("a list holds NaN or Infinity, which JSON cannot carry")
    elif not kinds <= {int, str, bool}:
        for item in items:
            _refuse_values(item)
