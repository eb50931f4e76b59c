from farmiq.alerting.evaluation import Moment, evaluate, grown
from farmiq.alerting.history import History, Point, Sample
from farmiq.alerting.rules import RULES

LOST = "farmiq_samples_lost_total"
LABELS = (("cause", "damaged"), ("job", "edge"))


def lost(value: float) -> list[Sample]:
    return [Sample(LOST, LABELS, value)]


def names(history: History, at: float, last_at: float | None = None) -> set[str]:
    found = evaluate(RULES, history, Moment(at, at), {}, last_at)
    return {one.cause.rule for one in found.firing}


def test_a_counter_that_starts_again_counts_from_nothing() -> None:
    assert grown([Point(0, 5), Point(1, 7), Point(2, 3), Point(3, 4)]) == 2 + 3 + 1


def test_what_was_counted_while_a_service_was_away_for_longer_than_the_window_is_found() -> None:
    history = History(3600)
    history.add("edge", 0, lost(5))
    for at in range(60, 3 * 3600, 60):
        history.add("edge", at, None)
    assert "FarmiqDataLost" not in names(history, 3 * 3600 - 60)
    history.add("edge", 3 * 3600, lost(6))
    assert "FarmiqDataLost" in names(history, 3 * 3600)


def test_what_was_counted_while_this_process_was_away_is_found() -> None:
    history = History(3600)
    history.remember("edge", 100, lost(5))
    assert history.latest(LOST, {}) == [], "it is to be compared with, and is not what is shown now"
    history.add("edge", 100, lost(6))
    assert "FarmiqDataLost" in names(history, 100)


def test_a_first_look_at_an_old_ledger_is_no_loss() -> None:
    history = History(3600)
    for at in (0, 15, 30):
        history.add("edge", at, lost(700))
    assert "FarmiqDataLost" not in names(history, 30)


def test_what_a_service_no_longer_shows_is_gone_and_what_it_can_not_show_is_not_known() -> None:
    history = History(3600)
    pending = [Sample("outbox_pending_total", (("job", "edge"),), 5000)]
    history.add("edge", 0, pending)
    assert history.is_known("outbox_pending_total")
    history.add("edge", 15, [])
    assert history.latest("outbox_pending_total", {}) == []
    assert history.is_known("outbox_pending_total")
    history.add("edge", 30, None)
    assert not history.is_known("outbox_pending_total")


def test_nothing_is_known_before_anybody_was_asked() -> None:
    history = History(3600)
    assert not history.is_known("outbox_pending_total")
    history.add("edge", 0, None)
    assert not history.is_known("outbox_pending_total")


def test_points_past_the_window_are_forgotten() -> None:
    history = History(60)
    for at in range(0, 600, 15):
        history.add("edge", at, lost(at))
    ((_, points),) = history.since(LOST, {}, 0)
    assert points[0].at == 585 - 60
    for at in range(600, 700, 15):
        history.add("edge", at, [])
    assert history.since(LOST, {}, 0) == []


def test_not_a_number_says_nothing() -> None:
    history = History(3600)
    history.add("console", 0, [Sample("farmiq_disk_free_ratio", (("job", "console"), ("path", "/")), float("nan"))])
    assert "FarmiqDiskFull" not in names(history, 0)
