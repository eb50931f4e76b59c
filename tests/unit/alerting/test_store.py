from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from farmiq.alerting.alert import Cause
from farmiq.alerting.changes import Change, changes
from farmiq.alerting.evaluation import Evaluated, Firing
from farmiq.alerting.history import Sample
from farmiq.alerting.store import FILE, NOTICES_MAX, AlertClosed, AlertStore, AlertUnknown
from farmiq.alerting.webhook import Notice

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOWN = Firing(Cause("FarmiqServiceDown", (("job", "edge-media-store"),)), "critical", 0.0, False)
WARNED = Firing(Cause("FarmiqDataDelayed", ()), "warning", 3700.0, False)
NOTHING = Evaluated({}, [], frozenset())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AlertStore]:
    store = AlertStore(tmp_path)
    yield store
    store.close()


def raise_it(store: AlertStore, firing: Firing = DOWN, now: datetime = NOW) -> None:
    store.apply([Change(what="raised", firing=firing)], now, is_told=True)


def told(store: AlertStore, now: datetime = NOW) -> list[tuple[str, str, str]]:
    """What the webhook would be told, in order."""
    found: list[tuple[str, str, str]] = []
    while (waiting := store.due_notice(now)) is not None:
        notice = msgspec.json.decode(waiting.body, type=Notice)
        assert notice.id == waiting.id
        found.append((notice.what, notice.alert.name, notice.alert.status))
        store.end_notice(waiting.id)
    return found


def test_an_alert_and_its_notice_survive_a_restart(tmp_path: Path) -> None:
    store = AlertStore(tmp_path)
    raise_it(store)
    (before,) = store.not_closed()
    store.close()
    again = AlertStore(tmp_path)
    assert again.not_closed() == [before]
    assert before.summary == "edge-media-store does not answer"
    assert told(again) == [("raised", "FarmiqServiceDown", "open")]
    again.close()


def test_an_alert_is_acknowledged_with_name_and_note_and_closed_when_the_cause_is_gone(store: AlertStore) -> None:
    raise_it(store)
    (alert,) = store.alerts("open")
    known = store.acknowledge(alert.id, "ann", "disk is on its way", NOW + timedelta(minutes=1))
    assert (known.status, known.acknowledged_by, known.note) == ("acknowledged", "ann", "disk is on its way")
    store.apply(changes(store.not_closed(), NOTHING, NOW), NOW + timedelta(hours=1), is_told=True)
    closed = store.find(alert.id)
    assert (closed.status, closed.closed_at, closed.note) == ("closed", NOW + timedelta(hours=1), "disk is on its way")
    assert store.not_closed() == []
    assert told(store, NOW + timedelta(hours=1))[-1] == ("closed", "FarmiqServiceDown", "closed")


def test_what_is_closed_can_not_be_acknowledged_and_what_is_not_there_neither(store: AlertStore) -> None:
    raise_it(store)
    (alert,) = store.not_closed()
    store.apply([Change(what="closed", alert=alert)], NOW, is_told=False)
    with pytest.raises(AlertClosed):
        store.acknowledge(alert.id, "ann", "", NOW)
    with pytest.raises(AlertUnknown):
        store.acknowledge("nobody", "ann", "", NOW)


def test_a_cause_that_comes_back_is_a_new_alert(store: AlertStore) -> None:
    raise_it(store)
    (first,) = store.not_closed()
    store.apply([Change(what="closed", alert=first)], NOW, is_told=False)
    raise_it(store, now=NOW + timedelta(hours=1))
    assert [alert.status for alert in store.alerts()] == ["open", "closed"]


def test_worse_than_a_person_knew_of_is_open_again(store: AlertStore) -> None:
    raise_it(store, WARNED)
    (alert,) = store.not_closed()
    known = store.acknowledge(alert.id, "ann", "uplink is down", NOW)
    worse = Firing(WARNED.cause, "critical", 86_500.0, False)
    store.apply([Change(what="worsened", alert=known, firing=worse)], NOW, is_told=True)
    (now,) = store.not_closed()
    assert (now.id, now.status, now.severity, now.value) == (alert.id, "open", "critical", 86_500.0)
    assert told(store) == [("raised", "FarmiqDataDelayed", "open"), ("worsened", "FarmiqDataDelayed", "open")]


def test_pages_follow_one_another_newest_first(store: AlertStore) -> None:
    for minute in range(5):
        cause = Cause("FarmiqServiceDown", (("job", f"edge-{minute}"),))
        raise_it(store, Firing(cause, "critical", 0.0, False), NOW + timedelta(minutes=minute))
    first = store.alerts(limit=3)
    rest = store.alerts(after=(first[-1].opened_at, first[-1].id), limit=3)
    assert [alert.labels["job"] for alert in [*first, *rest]] == [f"edge-{minute}" for minute in (4, 3, 2, 1, 0)]


def test_the_queue_to_the_webhook_is_bounded_and_the_alerts_are_kept(store: AlertStore) -> None:
    found = [
        Change(what="raised", firing=Firing(Cause("FarmiqServiceDown", (("job", str(n)),)), "critical", 0.0, False))
        for n in range(NOTICES_MAX + 20)
    ]
    store.apply(found, NOW, is_told=True)
    assert store.notices_waiting() == NOTICES_MAX
    assert len(store.not_closed()) == NOTICES_MAX + 20


def test_a_notice_that_was_put_off_is_not_due_before_its_time(store: AlertStore) -> None:
    raise_it(store)
    waiting = store.due_notice(NOW)
    assert waiting is not None
    store.put_off_notice(waiting.id, "HTTP_503", NOW + timedelta(seconds=5))
    assert store.due_notice(NOW + timedelta(seconds=4)) is None
    again = store.due_notice(NOW + timedelta(seconds=5))
    assert again is not None
    assert (again.id, again.attempts) == (waiting.id, 1)


def test_counters_are_remembered(tmp_path: Path) -> None:
    sample = Sample("farmiq_samples_lost_total", (("cause", "damaged"), ("job", "edge")), 7.0)
    store = AlertStore(tmp_path)
    store.keep_counters({"edge": [sample._replace(value=3.0)]})
    store.keep_counters({"edge": [sample]})
    store.close()
    again = AlertStore(tmp_path)
    assert again.counters() == {"edge": [sample]}
    again.close()


def test_closed_alerts_are_forgotten_after_ninety_days_and_open_ones_never(store: AlertStore) -> None:
    raise_it(store)
    raise_it(store, WARNED)
    store.apply([Change(what="closed", alert=store.not_closed()[0])], NOW, is_told=False)
    assert store.forget_old(NOW + timedelta(days=90)) == 0
    assert store.forget_old(NOW + timedelta(days=91)) == 1
    assert len(store.alerts()) == 1


def test_a_damaged_file_is_set_aside_and_alerts_are_raised_again(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is no database, whatever its name says" * 100)
    store = AlertStore(tmp_path, NOW)
    raise_it(store)
    assert len(store.not_closed()) == 1
    (aside,) = tmp_path.glob(f"{FILE}.damaged-*")
    assert aside.read_bytes().startswith(b"this is no database")
    store.close()


def test_a_notice_that_a_clock_ahead_has_put_off_is_due(store: AlertStore) -> None:
    """promise-device-edge 7."""
    raise_it(store)
    waiting = store.due_notice(NOW)
    assert waiting is not None
    store.put_off_notice(waiting.id, "HTTP_503", NOW + timedelta(days=365))
    again = store.due_notice(NOW)
    assert again is not None
    assert again.id == waiting.id
