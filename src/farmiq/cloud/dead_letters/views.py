"""A letter as it is shown: what is written on it, its headers, and its body unless that is long."""

from typing import Any, Final

import msgspec

from farmiq.cloud.dead_letters.handlers import Found
from farmiq.cloud.dead_letters.letters import Letter

BODY_BYTES_MAX: Final = 64 * 1024


class LetterView(msgspec.Struct, frozen=True):
    """`envelope` is the body when it is JSON, `body` when it is not, as base64. Neither when it is long."""

    letter: Letter
    headers: dict[str, Any]
    envelope: Any = None
    body: bytes | None = None


def view_of(found: Found, body_bytes_max: int = BODY_BYTES_MAX) -> LetterView:
    data = found.delivery.body
    headers: dict[str, Any] = msgspec.to_builtins(found.delivery.headers)
    if len(data) > body_bytes_max:
        return LetterView(found.letter, headers)
    try:
        return LetterView(found.letter, headers, envelope=msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return LetterView(found.letter, headers, body=data)
