"""People, their sessions and what they did, in a file of the console's own.

The console must show what is wrong when every database of the farm is away, so it depends on none of them.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from farmiq.console.roles import Role
from farmiq.kit.due_times import AHEAD_SECONDS
from farmiq.kit.errors import Rejected
from farmiq.kit.sqlite_file import open_file, transaction

FILE: Final = "console.db"

_STEPS: Final = (
    """
CREATE TABLE people (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    tenants TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    added_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE sessions (
    token_hash BLOB PRIMARY KEY,
    name TEXT NOT NULL REFERENCES people (name) ON DELETE CASCADE,
    csrf TEXT NOT NULL,
    began_at REAL NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_by_end ON sessions (expires_at);
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    name TEXT NOT NULL,
    tenant_id TEXT,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,
    outcome TEXT
);
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is kept'); END;
CREATE TRIGGER audit_is_ended_once BEFORE UPDATE ON audit
WHEN OLD.outcome IS NOT NULL OR (NEW.at, NEW.name, NEW.action, NEW.subject, NEW.detail)
    IS NOT (OLD.at, OLD.name, OLD.action, OLD.subject, OLD.detail)
BEGIN SELECT RAISE(ABORT, 'the audit trail is kept'); END;
""",
)


class PersonUnknown(Rejected):
    """There is nobody of that name."""

    code = "person_unknown"


class PersonKnown(Rejected):
    """There is somebody of that name already."""

    code = "person_known"


class Person(Struct, frozen=True):
    """`tenants` is empty for somebody who may see all of them."""

    name: str
    role: Role
    tenants: tuple[str, ...]
    added_at: datetime

    def may_see(self, tenant_id: str) -> bool:
        return not self.tenants or tenant_id in self.tenants

    @property
    def sees_all(self) -> bool:
        return not self.tenants

    def answers_for(self, other: "Person") -> bool:
        """Whether `other` can see nothing that this person can't: only then may they know of them, or take them out."""
        return self.sees_all or (bool(other.tenants) and set(other.tenants) <= set(self.tenants))


class Session(Struct, frozen=True):
    person: Person
    csrf: str


class Deed(Struct, frozen=True):
    """One line of the audit trail. Without an outcome: it was begun and nobody knows how it ended."""

    number: int
    at: datetime
    name: str
    tenant_id: str | None
    action: str
    subject: str
    detail: dict[str, Any]
    outcome: str | None


class Store:
    """Every call is a few pages of a local file: short enough for the event loop, which one thread runs."""

    def __init__(self, folder: Path) -> None:
        self._connection = open_file(folder / FILE, _STEPS)

    def close(self) -> None:
        self._connection.close()

    def is_empty(self) -> bool:
        return self._connection.execute("SELECT 1 FROM people LIMIT 1").fetchone() is None

    def add_person(self, name: str, role: Role, tenants: Sequence[str], password_hash: str, now: datetime) -> None:
        row = (name, role, json.dumps(sorted(tenants)), password_hash, now.timestamp())
        try:
            with transaction(self._connection):
                self._connection.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError as error:
            raise PersonKnown(f"There is a person {name} already") from error

    def person(self, name: str) -> Person | None:
        row = self._connection.execute("SELECT * FROM people WHERE name = ?", (name,)).fetchone()
        return row and _person(row)

    def people(self) -> list[Person]:
        return [_person(row) for row in self._connection.execute("SELECT * FROM people ORDER BY name")]

    def password_hash(self, name: str) -> str | None:
        row = self._connection.execute("SELECT password_hash FROM people WHERE name = ?", (name,)).fetchone()
        return row and str(row["password_hash"])

    def set_password(self, name: str, password_hash: str) -> None:
        """Whoever is logged in under the old one is logged out."""
        with transaction(self._connection):
            found = self._connection.execute(
                "UPDATE people SET password_hash = ? WHERE name = ?", (password_hash, name)
            )
            self._require(found, name)
            self._connection.execute("DELETE FROM sessions WHERE name = ?", (name,))

    def renew_hash(self, name: str, old: str, new: str) -> None:
        """The same password, hashed with more work. Nobody is logged out, and a password set meanwhile stays."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE people SET password_hash = ? WHERE name = ? AND password_hash = ?", (new, name, old)
            )

    def remove_person(self, name: str) -> None:
        with transaction(self._connection):
            self._require(self._connection.execute("DELETE FROM people WHERE name = ?", (name,)), name)

    def begin_session(self, name: str, token_hash: bytes, csrf: str, now: datetime, lasts: timedelta) -> None:
        with transaction(self._connection):
            self._connection.execute("DELETE FROM sessions WHERE expires_at < ?", (now.timestamp(),))
            self._connection.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?)",
                (token_hash, name, csrf, now.timestamp(), (now + lasts).timestamp()),
            )

    def session(self, token_hash: bytes, now: datetime) -> Session | None:
        row = self._connection.execute(
            "SELECT people.*, csrf FROM sessions JOIN people USING (name) WHERE token_hash = ? AND expires_at > ?"
            " AND began_at <= ?",
            (token_hash, now.timestamp(), now.timestamp() + AHEAD_SECONDS),
        ).fetchone()
        return None if row is None else Session(_person(row), row["csrf"])

    def end_session(self, token_hash: bytes) -> None:
        with transaction(self._connection):
            self._connection.execute("DELETE FROM sessions WHERE token_hash = ?", (token_hash,))

    def begin_deed(
        self, name: str, tenant_id: str | None, action: str, subject: str, detail: Mapping[str, Any], now: datetime
    ) -> int:
        row = (now.timestamp(), name, tenant_id, action, subject, json.dumps(detail, default=str))
        with transaction(self._connection):
            made = self._connection.execute(
                "INSERT INTO audit (at, name, tenant_id, action, subject, detail) VALUES (?, ?, ?, ?, ?, ?)", row
            )
        if made.lastrowid is None:
            raise RuntimeError("SQLite gave a new row no number")
        return made.lastrowid

    def note_deed(
        self,
        name: str,
        tenant_id: str | None,
        action: str,
        subject: str,
        detail: Mapping[str, Any],
        outcome: str,
        now: datetime,
    ) -> None:
        """Something that is over already."""
        self.end_deed(self.begin_deed(name, tenant_id, action, subject, detail, now), outcome)

    def end_deed(self, number: int, outcome: str) -> None:
        with transaction(self._connection):
            self._connection.execute("UPDATE audit SET outcome = ? WHERE number = ?", (outcome[:2000], number))

    def deeds(self, seen_by: Person, *, before: int | None, limit: int) -> list[Deed]:
        """The newest first. To somebody of some tenants: what was done there, and by people whom they answer for."""
        tenants, names = None, None
        if not seen_by.sees_all:
            tenants = json.dumps(seen_by.tenants)
            names = json.dumps([one.name for one in self.people() if seen_by.answers_for(one)])
        rows = self._connection.execute(
            "SELECT * FROM audit WHERE number < ? AND (? IS NULL OR tenant_id IN (SELECT value FROM json_each(?))"
            " OR name IN (SELECT value FROM json_each(?))) ORDER BY number DESC LIMIT ?",
            (before or 1 << 62, tenants, tenants, names, limit),
        )
        return [_deed(row) for row in rows]

    @staticmethod
    def _require(found: sqlite3.Cursor, name: str) -> None:
        if found.rowcount == 0:
            raise PersonUnknown(f"There is no person {name}")


def _person(row: sqlite3.Row) -> Person:
    return Person(row["name"], row["role"], tuple(json.loads(row["tenants"])), _time(row["added_at"]))


def _deed(row: sqlite3.Row) -> Deed:
    return Deed(
        row["number"], _time(row["at"]), row["name"], row["tenant_id"], row["action"], row["subject"],
        json.loads(row["detail"]), row["outcome"],
    )  # fmt: skip


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
