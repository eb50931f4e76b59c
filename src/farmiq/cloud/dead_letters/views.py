"""A letter as it is shown: what is written on it, its headers, and its body unless that is long."""

from typing import Any, Final

import msgspec

from farmiq.cloud.dead_letters.letters import Letter
from farmiq.cloud.dead_letters.saved import SavedLetter

BODY_BYTES_MAX: Final = 64 * 1024


class LetterView(msgspec.Struct, frozen=True):
    """`envelope` is the body when it is JSON, `body` when it is not, as base64. Neither when it is long."""

    letter: Letter
    headers: dict[str, Any]
    envelope: Any = None
    body: bytes | None = None


def view_of(saved: SavedLetter, body_bytes_max: int = BODY_BYTES_MAX) -> LetterView:
    data = saved.delivery.body
    headers: dict[str, Any] = msgspec.to_builtins(saved.delivery.headers)
    if len(data) > body_bytes_max:
        return LetterView(saved.letter, headers)
    try:
        return LetterView(saved.letter, headers, envelope=msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return LetterView(saved.letter, headers, body=data)
