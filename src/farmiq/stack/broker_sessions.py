"""The sessions that a stopped Mosquitto 2.0 has kept in its file, of which some can be left out.

The broker itself offers no way to drop the session of a client whose id nobody knows, nor to do so before clients come in."""

import os
import struct
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final, NamedTuple

from farmiq.stack.errors import StackError

_HEADER: Final = b"\x00\xb5\x00mosquitto db\x00\x00\x00\x00\x00\x00\x00\x06"
_MESSAGE_OF_CLIENT, _SUBSCRIPTION, _CLIENT = 3, 5, 6
# Where a part of such a kind says how long the client's id is, and how long all of its numbers are, after which the id comes.
_ID_AT: Final = {_MESSAGE_OF_CLIENT: (10, 16), _SUBSCRIPTION: (4, 12), _CLIENT: (14, 24)}
_USER_LENGTH_AT: Final = 18


class SessionsNotReadable(StackError):
    """The broker's file of sessions has another form than Mosquitto 2.0 gives it, so devices' old sessions can't be dropped."""


class _Part(NamedTuple):
    kind: int
    body: bytes

    def texts(self) -> tuple[str, str]:
        """The client's id, and the name that the client logged in with. Only a part of kind `_CLIENT` has the latter."""
        length_at, texts_at = _ID_AT[self.kind]
        id_end = texts_at + self._number(length_at)
        if self.kind == _SUBSCRIPTION:
            return _text(self.body[texts_at:id_end]), ""
        user_end = id_end + (self._number(_USER_LENGTH_AT) if self.kind == _CLIENT else 0)
        return _text(self.body[texts_at:id_end]), _text(self.body[id_end:user_end])

    def _number(self, at: int) -> int:
        (number,) = struct.unpack_from(">H", self.body, at)
        return int(number)


def keep_sessions_of(users: Set[str], path: Path) -> None:
    """Drops all other sessions, with their subscriptions and what waits for them. The broker must not run."""
    if not path.exists():
        return
    kept_ids: set[str] = set()
    written = bytearray(_HEADER)
    try:
        for part in _parts(path.read_bytes()):
            if part.kind in _ID_AT:
                client_id, user = part.texts()
                # A client stands before its messages and subscriptions.
                if part.kind == _CLIENT and user in users:
                    kept_ids.add(client_id)
                if client_id not in kept_ids:
                    continue
            written += struct.pack(">II", part.kind, len(part.body)) + part.body
    except (ValueError, struct.error) as error:
        fix = f"move {path} away: devices send again what no gateway has acknowledged"
        raise SessionsNotReadable(f"{path} can't be read: {error}", fix=fix) from error
    _replace(path, bytes(written))


def _parts(content: bytes) -> Iterator[_Part]:
    if not content.startswith(_HEADER):
        raise ValueError("it is not of Mosquitto 2.0")
    at = len(_HEADER)
    while at < len(content):
        kind, length = struct.unpack_from(">II", content, at)
        body = content[at + 8 : at + 8 + length]
        if len(body) < length:
            raise ValueError("it ends in the middle")
        yield _Part(kind, body)
        at += 8 + length


def _text(raw: bytes) -> str:
    return raw.decode("utf-8")


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all, readable for whom it was before."""
    status = path.stat()
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        os.fchmod(file.fileno(), status.st_mode & 0o777)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
