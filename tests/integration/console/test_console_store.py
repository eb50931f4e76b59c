import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from farmiq.console.store import FILE, Person, PersonKnown, PersonUnknown, Store
from farmiq.kit.sqlite_file import FileDamaged, FileTooNew

NOW = datetime(2026, 6, 1, tzinfo=UTC)
EVERYBODY = Person("root", "admin", (), NOW)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path)
    store.add_person("ann", "operator", ["north"], "hash", NOW)
    return store


def test_a_session_ends_by_itself_and_with_its_person(store: Store) -> None:
    store.begin_session("ann", b"one", "csrf", NOW, timedelta(hours=1))
    found = store.session(b"one", NOW + timedelta(minutes=59))
    assert found is not None
    assert (found.person.name, found.person.tenants, found.csrf) == ("ann", ("north",), "csrf")
    assert store.session(b"one", NOW + timedelta(hours=1)) is None
    assert store.session(b"two", NOW) is None
    store.remove_person("ann")
    assert store.session(b"one", NOW) is None


def test_a_new_password_ends_the_sessions_of_the_old_one(store: Store) -> None:
    store.begin_session("ann", b"one", "csrf", NOW, timedelta(hours=1))
    store.set_password("ann", "other")
    assert store.session(b"one", NOW) is None
    assert store.password_hash("ann") == "other"


def test_a_renewed_hash_ends_no_session_and_undoes_no_new_password(store: Store) -> None:
    store.begin_session("ann", b"one", "csrf", NOW, timedelta(hours=1))
    store.renew_hash("ann", "hash", "stronger hash")
    assert store.password_hash("ann") == "stronger hash"
    assert store.session(b"one", NOW) is not None
    store.set_password("ann", "of another password")
    store.renew_hash("ann", "hash", "stronger hash")
    assert store.password_hash("ann") == "of another password"


def test_people_are_known_by_their_names(store: Store) -> None:
    with pytest.raises(PersonKnown):
        store.add_person("ann", "viewer", [], "hash", NOW)
    with pytest.raises(PersonUnknown):
        store.remove_person("bob")
    with pytest.raises(PersonUnknown):
        store.set_password("bob", "x")
    assert store.password_hash("bob") is None


def test_somebody_of_one_tenant_sees_its_part_of_the_audit_trail(store: Store) -> None:
    for tenant, action in (("north", "a"), ("south", "b"), (None, "c")):
        store.note_deed("root", tenant, action, "x", {}, "done", NOW)
    assert [deed.action for deed in store.deeds(EVERYBODY, before=None, limit=9)] == ["c", "b", "a"]
    northern = Person("nora", "admin", ("north",), NOW)
    assert [deed.action for deed in store.deeds(northern, before=None, limit=9)] == ["a"]
    store.note_deed("ann", None, "login", "::1", {}, "refused", NOW)
    seen = [deed.action for deed in store.deeds(northern, before=None, limit=9)]
    assert seen == ["login", "a"], "ann is of north alone, so who sees north answers for her"
    southern = Person("sue", "admin", ("south",), NOW)
    assert [deed.action for deed in store.deeds(southern, before=None, limit=9)] == ["b"]
    [newest] = store.deeds(EVERYBODY, before=None, limit=1)
    older = [deed.action for deed in store.deeds(EVERYBODY, before=newest.number, limit=9)]
    assert (newest.action, older) == ("login", ["c", "b", "a"])


def test_the_audit_trail_can_neither_be_deleted_nor_rewritten(store: Store, tmp_path: Path) -> None:
    number = store.begin_deed("ann", None, "redrive", "x", {"n": 1}, NOW)
    direct = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError):
        direct.execute("DELETE FROM audit")
    with pytest.raises(sqlite3.IntegrityError):
        direct.execute("UPDATE audit SET name = 'eve'")
    store.end_deed(number, "done")
    with pytest.raises(sqlite3.IntegrityError):
        direct.execute("UPDATE audit SET outcome = 'nothing happened'")
    direct.close()
    [deed] = store.deeds(EVERYBODY, before=None, limit=9)
    assert (deed.name, deed.detail, deed.outcome) == ("ann", {"n": 1}, "done")


def test_what_was_begun_and_never_ended_shows_as_such_after_a_restart(store: Store, tmp_path: Path) -> None:
    store.begin_deed("ann", "north", "redrive", "x", {}, NOW)
    store.close()
    [deed] = Store(tmp_path).deeds(EVERYBODY, before=None, limit=9)
    assert deed.outcome is None


def test_only_the_owner_can_read_the_file(store: Store, tmp_path: Path) -> None:
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_a_file_of_a_newer_version_or_no_database_at_all_is_left_alone(store: Store, tmp_path: Path) -> None:
    store.close()
    direct = sqlite3.connect(tmp_path / FILE)
    direct.execute("PRAGMA user_version = 99")
    direct.close()
    with pytest.raises(FileTooNew):
        Store(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FILE).write_bytes(b"not a database" * 100)
    with pytest.raises(FileDamaged):
        Store(tmp_path / "other")
    assert (tmp_path / "other" / FILE).read_bytes() == b"not a database" * 100


def test_a_session_that_a_clock_ahead_has_begun_ends_when_it_is_set_right(store: Store) -> None:
    """promise-device-edge 7: it would let its holder in for a year longer than was promised."""
    store.begin_session("ann", b"one", "csrf", NOW + timedelta(days=365), timedelta(hours=12))
    assert store.session(b"one", NOW) is None
    store.begin_session("ann", b"two", "csrf", NOW + timedelta(seconds=5), timedelta(hours=12))
    assert store.session(b"two", NOW) is not None, "a time server corrects by seconds"
