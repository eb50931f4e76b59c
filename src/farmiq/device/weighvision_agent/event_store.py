"""Every SQL about events, sessions and what is known of the edge."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from farmiq.contracts.station import STATION_LOSS
from farmiq.device.weighvision_agent.drops import CRITICAL, Waiting
from farmiq.device.weighvision_agent.messages import Event
from farmiq.device.weighvision_agent.replay import order_us

Connection = sqlite3.Connection


class ToSend(NamedTuple):
    number: int
    topic: str
    body: bytes


class OpenSession(NamedTuple):
    session_id: UUID
    trace_id: str
    weight_kg: float
    image_count: int = 0


class Queued(NamedTuple):
    """An event as far as its acknowledgement needs it."""

    number: int
    event_id: UUID
    event_type: str
    ts_us: int
    session_id: UUID | None
    picture_id: UUID | None
    state: str


def add(connection: Connection, events: Iterable[Event], since_us: int) -> None:
    for event in events:
        connection.execute(
            "INSERT INTO events (event_id, event_type, topic, ts_us, order_us, session_id, picture_id, body, since_us, state)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting')",
            (
                str(event.event_id),
                event.event_type,
                event.topic,
                event.ts_us,
                order_us(event.ts_us, _last_of(connection, event.session_id)),
                _text(event.session_id),
                _text(event.picture_id),
                event.body,
                since_us,
            ),
        )


def _last_of(connection: Connection, session_id: UUID | None) -> int | None:
    if session_id is None:
        return None
    row = connection.execute("SELECT max(order_us) FROM events WHERE session_id = ?", (str(session_id),)).fetchone()
    return None if row[0] is None else int(row[0])


def next_to_send(connection: Connection, count: int, passing: Sequence[int] = ()) -> list[ToSend]:
    """From the front of the queue, in the order of the replay, but for those that are `passing` their turn."""
    rows = connection.execute(
        "SELECT number, topic, body FROM events WHERE state = 'waiting' AND number NOT IN (SELECT value FROM json_each(?))"
        " ORDER BY order_us, number LIMIT ?",
        (json.dumps(list(passing)), count),
    )
    return [ToSend(*row) for row in rows]


def count_waiting(connection: Connection) -> int:
    """Losses do not count: there is always room for saying what is missing."""
    return int(
        connection.execute(
            "SELECT count(*) FROM events WHERE state = 'waiting' AND event_type <> ?", (STATION_LOSS,)
        ).fetchone()[0]
    )


def oldest_waiting_us(connection: Connection) -> int | None:
    row = connection.execute("SELECT min(ts_us) FROM events WHERE state = 'waiting'").fetchone()
    return None if row[0] is None else int(row[0])


def waiting(connection: Connection) -> list[Waiting]:
    rows = connection.execute(
        "SELECT number, ts_us, since_us, event_type FROM events WHERE state = 'waiting' AND event_type <> ?",
        (STATION_LOSS,),
    )
    return [Waiting(number, ts_us, since_us, event_type in CRITICAL) for number, ts_us, since_us, event_type in rows]


def ageing_since_us(connection: Connection) -> int | None:
    """Since when the first of those waits that can grow too old."""
    marks = ", ".join("?" for _ in CRITICAL)
    row = connection.execute(
        f"SELECT min(since_us) FROM events WHERE state = 'waiting' AND event_type NOT IN (?, {marks})",  # noqa: S608 - marks
        (STATION_LOSS, *CRITICAL),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def count_since(connection: Connection, since_us: int) -> int:
    """Whatever has become of them, as far as it is still here."""
    row = connection.execute("SELECT count(*) FROM events WHERE since_us >= ? AND since_us > 0", (since_us,)).fetchone()
    return int(row[0])


def by_number(connection: Connection, numbers: Iterable[int]) -> list[Queued]:
    rows = [connection.execute(f"{_QUEUED} WHERE number = ?", (number,)).fetchone() for number in numbers]
    return [_queued(row) for row in rows if row is not None]


def by_event_id(connection: Connection, event_id: UUID) -> Queued | None:
    row = connection.execute(f"{_QUEUED} WHERE event_id = ?", (str(event_id),)).fetchone()
    return None if row is None else _queued(row)


_QUEUED = "SELECT number, event_id, event_type, ts_us, session_id, picture_id, state FROM events"


def _queued(row: Sequence[str | int | None]) -> Queued:
    number, event_id, event_type, ts_us, session_id, picture_id, state = row
    return Queued(
        int(number or 0),
        UUID(str(event_id)),
        str(event_type),
        int(ts_us or 0),
        _uuid(session_id),
        _uuid(picture_id),
        str(state),
    )


def acknowledge(connection: Connection, number: int, epoch: UUID, at_us: int) -> None:
    connection.execute(
        "UPDATE events SET state = 'acked', epoch = ?, settled_us = ?, code = NULL WHERE number = ?",
        (str(epoch), at_us, number),
    )


def reject(connection: Connection, number: int, code: str | None, at_us: int) -> None:
    connection.execute(
        "UPDATE events SET state = 'rejected', code = ?, settled_us = ? WHERE number = ?", (code, at_us, number)
    )


def rename(connection: Connection, number: int, event_id: UUID, body: bytes) -> None:
    connection.execute("UPDATE events SET event_id = ?, body = ? WHERE number = ?", (str(event_id), body, number))


def body_of(connection: Connection, number: int) -> bytes:
    return bytes(connection.execute("SELECT body FROM events WHERE number = ?", (number,)).fetchone()[0])


def send_again(connection: Connection, since_us: int) -> int:
    """What the edge acknowledged, and its database may not have any more. It begins to wait once more."""
    return connection.execute(
        "UPDATE events SET state = 'waiting', epoch = NULL, settled_us = NULL, since_us = ? WHERE state = 'acked'",
        (since_us,),
    ).rowcount


def announcement_of(connection: Connection, picture_id: UUID) -> tuple[int, bytes] | None:
    """The acknowledged announcement of a picture, while it is kept."""
    row = connection.execute(
        "SELECT number, body FROM events WHERE picture_id = ? AND state = 'acked'", (str(picture_id),)
    ).fetchone()
    return None if row is None else (int(row[0]), bytes(row[1]))


def delete(connection: Connection, numbers: Iterable[int]) -> None:
    connection.executemany("DELETE FROM events WHERE number = ?", ((number,) for number in numbers))


def forget_settled(connection: Connection, before_us: int, keep: int) -> int:
    """Acknowledged or rejected, and held long enough; never more than `keep` of them."""
    forgotten = connection.execute("DELETE FROM events WHERE settled_us < ?", (before_us,)).rowcount
    forgotten += connection.execute(
        "DELETE FROM events WHERE number IN"
        " (SELECT number FROM events WHERE settled_us IS NOT NULL ORDER BY settled_us DESC, number DESC LIMIT -1 OFFSET ?)",
        (keep,),
    ).rowcount
    return forgotten


def gathering(connection: Connection, event_type: str) -> list[tuple[int, UUID, bytes]]:
    rows = connection.execute(
        "SELECT number, event_id, body FROM events WHERE state = 'gathering' AND event_type = ?", (event_type,)
    )
    return [(number, UUID(event_id), body) for number, event_id, body in rows]


def gather(connection: Connection, event: Event) -> None:
    """A loss that may still grow: the newest words take the place of the older ones."""
    connection.execute(
        "INSERT INTO events (event_id, event_type, topic, ts_us, order_us, body, state)"
        " VALUES (?, ?, ?, ?, ?, ?, 'gathering')"
        " ON CONFLICT (event_id) DO UPDATE SET ts_us = excluded.ts_us, order_us = excluded.order_us, body = excluded.body",
        (str(event.event_id), event.event_type, event.topic, event.ts_us, event.ts_us, event.body),
    )


def tell_gathered(connection: Connection, refused: Sequence[int] = ()) -> bool:
    """One batch of losses at a time: what is lost meanwhile grows the next one instead of becoming a crowd. One that the edge
    refuses is not waited for."""
    asked = "SELECT 1 FROM events WHERE event_type = ? AND state = ? AND number NOT IN (SELECT value FROM json_each(?)) LIMIT 1"
    if connection.execute(asked, (STATION_LOSS, "gathering", "[]")).fetchone() is None:
        return False
    if connection.execute(asked, (STATION_LOSS, "waiting", json.dumps(list(refused)))).fetchone() is not None:
        return False
    connection.execute("UPDATE events SET state = 'waiting' WHERE state = 'gathering'")
    return True


def count_rejected(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM events WHERE state = 'rejected'").fetchone()[0])


def begin_session(connection: Connection, session: OpenSession, began_us: int, since_us: int) -> None:
    connection.execute(
        "INSERT INTO sessions (session_id, trace_id, state, began_us, weight_kg, since_us) VALUES (?, ?, 'open', ?, ?, ?)",
        (str(session.session_id), session.trace_id, began_us, session.weight_kg, since_us),
    )


def set_weight(connection: Connection, session_id: UUID, weight_kg: float) -> None:
    connection.execute("UPDATE sessions SET weight_kg = ? WHERE session_id = ?", (weight_kg, str(session_id)))


def count_image(connection: Connection, session_id: UUID | None) -> None:
    connection.execute("UPDATE sessions SET image_count = image_count + 1 WHERE session_id = ?", (_text(session_id),))


def open_sessions(connection: Connection) -> list[OpenSession]:
    rows = connection.execute(
        "SELECT session_id, trace_id, weight_kg, image_count FROM sessions WHERE state = 'open' ORDER BY began_us"
    )
    return [OpenSession(UUID(session_id), *rest) for session_id, *rest in rows]


def close_session(connection: Connection, session_id: UUID) -> None:
    connection.execute("UPDATE sessions SET state = 'closed' WHERE session_id = ?", (str(session_id),))


def fail_session(connection: Connection, session_id: UUID | None, reason: str) -> bool:
    """True when it was sound until now: the first reason stays."""
    changed = connection.execute(
        "UPDATE sessions SET failed_reason = ? WHERE session_id = ? AND failed_reason IS NULL",
        (reason, _text(session_id)),
    )
    return changed.rowcount > 0


def failed_sessions(connection: Connection, count: int) -> tuple[int, list[tuple[UUID, str]]]:
    """How many, and the newest of them with the reason."""
    total = int(connection.execute("SELECT count(*) FROM sessions WHERE failed_reason IS NOT NULL").fetchone()[0])
    rows = connection.execute(
        "SELECT session_id, failed_reason FROM sessions WHERE failed_reason IS NOT NULL ORDER BY began_us DESC LIMIT ?",
        (count,),
    )
    return total, [(UUID(session_id), reason) for session_id, reason in rows]


def forget_sessions(connection: Connection, before_us: int) -> None:
    connection.execute(
        "DELETE FROM sessions WHERE since_us < ? AND state <> 'open'"
        " AND NOT EXISTS (SELECT 1 FROM events WHERE events.session_id = sessions.session_id)"
        " AND NOT EXISTS (SELECT 1 FROM pictures WHERE pictures.session_id = sessions.session_id)",
        (before_us,),
    )


def fact(connection: Connection, name: str) -> str | None:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def set_fact(connection: Connection, name: str, value: str) -> None:
    connection.execute(
        "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)


def _uuid(value: str | int | None) -> UUID | None:
    return None if value is None else UUID(str(value))
