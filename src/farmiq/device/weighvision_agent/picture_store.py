"""Every SQL about pictures, and their files. A file is synced before its row is written, and removed after the row says so: what
a row promises is on the disk, and a file without a row was never promised."""

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.contracts.media import ContentType, PresignAnswer
from farmiq.contracts.timestamps import to_us
from farmiq.contracts.weighvision import ImageCaptured
from farmiq.device.weighvision_agent.drops import Held, PictureState
from farmiq.spool import disk

Connection = sqlite3.Connection


class Picture(Struct, frozen=True, kw_only=True):
    picture_id: UUID
    session_id: UUID | None
    trace_id: str
    content_type: ContentType
    size_bytes: int
    sha256: str
    captured_us: int
    state: PictureState = "waiting"
    attempts: int = 0
    media_id: UUID | None = None
    upload_url: str | None = None
    upload_headers: dict[str, str] = {}
    expires_us: int | None = None
    is_announced: bool = False
    """The edge has acknowledged its announcement: it declares the picture when it does not come."""


def new_picture(
    picture_id: UUID,
    data: bytes,
    content_type: ContentType,
    captured_at: datetime,
    trace_id: str,
    session_id: UUID | None,
) -> Picture:
    return Picture(
        picture_id=picture_id,
        session_id=session_id,
        trace_id=trace_id,
        content_type=content_type,
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        captured_us=to_us(captured_at),
    )


def signed(picture: Picture, answer: PresignAnswer) -> Picture:
    return replace(
        picture,
        state="presigned",
        media_id=answer.media_id,
        upload_url=answer.upload_url,
        upload_headers=answer.required_headers,
        expires_us=to_us(answer.expires_at),
    )


def captured(picture: Picture, media_id: UUID) -> ImageCaptured:
    return ImageCaptured(
        media_id=media_id, content_type=picture.content_type, size_bytes=picture.size_bytes, sha256=picture.sha256
    )


def delay_after(attempts: int) -> timedelta:
    return timedelta(seconds=min(300.0, 2.0 ** min(attempts, 10)))


_COLUMNS = ", ".join(Picture.__struct_fields__)


def write_file(folder: Path, picture_id: UUID, data: bytes) -> None:
    path = folder / str(picture_id)
    try:
        disk.replace_file(path, data)
    except OSError:
        # Half a picture is worth nothing, and takes room on a disk that may have none.
        for part in (path, path.with_name(f"{path.name}.tmp")):
            with contextlib.suppress(OSError):
                part.unlink()
        raise


def remove_files(folder: Path, picture_ids: Iterable[UUID]) -> None:
    for picture_id in picture_ids:
        (folder / str(picture_id)).unlink(missing_ok=True)


def files(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in folder.iterdir()}


def free_bytes(folder: Path) -> int:
    return disk.free_bytes(folder)


def add(connection: Connection, picture: Picture, since_us: int) -> None:
    values = [*_values(picture), since_us]
    marks = ", ".join("?" for _ in values)
    connection.execute(f"INSERT INTO pictures ({_COLUMNS}, since_us) VALUES ({marks})", values)  # noqa: S608 - our own columns


def _values(picture: Picture) -> list[str | int | None]:
    values = [getattr(picture, name) for name in Picture.__struct_fields__]
    return [json.dumps(one) if isinstance(one, dict) else str(one) if isinstance(one, UUID) else one for one in values]


def get(connection: Connection, picture_id: UUID) -> Picture | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM pictures WHERE picture_id = ?", (str(picture_id),)).fetchone()  # noqa: S608 - as above
    return None if row is None else _picture(row)


def next_to_upload(connection: Connection, now_us: int) -> Picture | None:
    """A session's pictures before scheduled ones; those that were put off behind the others; and the oldest of them first."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM pictures WHERE state IN ('waiting', 'presigned') AND next_us <= ?"  # noqa: S608 - as above
        " ORDER BY session_id IS NULL, next_us, captured_us, picture_id LIMIT 1",
        (now_us,),
    ).fetchone()
    return None if row is None else _picture(row)


def _picture(row: sqlite3.Row) -> Picture:
    found = dict(zip(Picture.__struct_fields__, row, strict=True))
    for name in ("picture_id", "session_id", "media_id"):
        found[name] = None if found[name] is None else UUID(found[name])
    found["is_announced"] = bool(found["is_announced"])
    found["upload_headers"] = json.loads(found["upload_headers"] or "{}")
    return Picture(**found)


def set_url(connection: Connection, picture: Picture) -> None:
    connection.execute(
        "UPDATE pictures SET state = 'presigned', media_id = ?, upload_url = ?, upload_headers = ?, expires_us = ?"
        " WHERE picture_id = ?",
        (
            str(picture.media_id),
            picture.upload_url,
            json.dumps(picture.upload_headers),
            picture.expires_us,
            str(picture.picture_id),
        ),
    )


def set_uploaded(connection: Connection, picture_id: UUID) -> None:
    connection.execute(
        "UPDATE pictures SET state = 'uploaded', upload_url = NULL, upload_headers = NULL WHERE picture_id = ?",
        (str(picture_id),),
    )


def set_waiting(connection: Connection, picture_id: UUID, attempts: int, next_us: int) -> None:
    """From the beginning: its URL is worth nothing any more."""
    connection.execute(
        "UPDATE pictures SET state = 'waiting', attempts = ?, next_us = ?, media_id = NULL, upload_url = NULL,"
        " upload_headers = NULL, expires_us = NULL, settled_us = NULL WHERE picture_id = ?",
        (attempts, next_us, str(picture_id)),
    )


def wait_anew(connection: Connection, picture_id: UUID, since_us: int) -> None:
    connection.execute("UPDATE pictures SET since_us = ? WHERE picture_id = ?", (since_us, str(picture_id)))


def put_off(connection: Connection, picture_id: UUID, attempts: int, next_us: int) -> None:
    connection.execute(
        "UPDATE pictures SET attempts = ?, next_us = ? WHERE picture_id = ?", (attempts, next_us, str(picture_id))
    )


def settle(
    connection: Connection, picture_id: UUID, state: PictureState, at_us: int, reason: str | None = None
) -> None:
    connection.execute(
        "UPDATE pictures SET state = ?, settled_us = ?, reason = ?, upload_url = NULL, upload_headers = NULL"
        " WHERE picture_id = ?",
        (state, at_us, reason, str(picture_id)),
    )


def delete(connection: Connection, picture_ids: Iterable[UUID]) -> None:
    connection.executemany("DELETE FROM pictures WHERE picture_id = ?", ((str(one),) for one in picture_ids))


def held(connection: Connection) -> list[Held]:
    rows = connection.execute(
        "SELECT picture_id, state, captured_us, size_bytes, session_id IS NOT NULL, state = 'acked' AND verified_us IS NOT NULL"
        " FROM pictures"
    )
    return [
        Held(picture_id, state, captured, size, bool(of_session), bool(verified))
        for picture_id, state, captured, size, of_session, verified in rows
    ]


def held_bytes(connection: Connection) -> int:
    return int(connection.execute("SELECT coalesce(sum(size_bytes), 0) FROM pictures").fetchone()[0])


def bytes_since(connection: Connection, since_us: int) -> int:
    row = connection.execute(
        "SELECT sum(size_bytes) FROM pictures WHERE since_us >= ? AND since_us > 0", (since_us,)
    ).fetchone()
    return int(row[0] or 0)


def waiting(connection: Connection) -> tuple[int, int | None]:
    """How many bytes nobody else has, and since when the first of them waits."""
    row = connection.execute(
        "SELECT coalesce(sum(size_bytes), 0), min(since_us) FROM pictures WHERE state IN ('waiting', 'presigned')"
    ).fetchone()
    return int(row[0]), row[1]


def waiting_older_than(connection: Connection, since_us: int) -> list[Picture]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM pictures WHERE state IN ('waiting', 'presigned') AND since_us < ?",  # noqa: S608 - as above
        (since_us,),
    )
    return [_picture(row) for row in rows]


def settled_before(connection: Connection, at_us: int, oldest_us: int) -> list[UUID]:
    """One that the edge has not verified is kept until it grows too old."""
    rows = connection.execute(
        "SELECT picture_id FROM pictures"
        " WHERE settled_us < ? AND (state <> 'acked' OR verified_us IS NOT NULL OR settled_us < ?)",
        (at_us, oldest_us),
    )
    return [UUID(row[0]) for row in rows]


def next_to_check(connection: Connection, now_us: int, count: int) -> list[Picture]:
    """Those whose announcement was acknowledged, and of which the edge has not said for a while what it has."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM pictures WHERE state = 'acked' AND media_id IS NOT NULL AND next_us <= ?"  # noqa: S608 - as above
        " ORDER BY next_us LIMIT ?",
        (now_us, count),
    )
    return [_picture(row) for row in rows]


def verified(connection: Connection, picture_id: UUID, at_us: int, next_us: int) -> None:
    connection.execute(
        "UPDATE pictures SET verified_us = ?, next_us = ? WHERE picture_id = ?", (at_us, next_us, str(picture_id))
    )


def check_in(connection: Connection, picture_id: UUID, next_us: int) -> None:
    connection.execute("UPDATE pictures SET next_us = ? WHERE picture_id = ?", (next_us, str(picture_id)))


def send_again(connection: Connection, picture_id: UUID, since_us: int, *, is_announced: bool) -> None:
    """The edge does not have it: it begins to wait once more."""
    connection.execute(
        "UPDATE pictures SET since_us = ?, verified_us = NULL, is_announced = ? WHERE picture_id = ?",
        (since_us, is_announced, str(picture_id)),
    )


def declare_ourselves(connection: Connection) -> None:
    """An edge that was restored may have forgotten what it acknowledged."""
    connection.execute("UPDATE pictures SET is_announced = 0 WHERE is_announced = 1")


def tally(connection: Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT state, count(*) FROM pictures GROUP BY state").fetchall())


def read_file(folder: Path, picture_id: UUID) -> bytes | None:
    with contextlib.suppress(FileNotFoundError):
        return (folder / str(picture_id)).read_bytes()
    return None
