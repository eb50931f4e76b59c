import pytest

from farmiq.console.drain import outlook


def test_an_empty_backlog_is_there_now() -> None:
    assert outlook([]).trend == "empty"
    assert outlook([(0.0, 500.0), (1.0, 0.0)]).seconds == 0.0


def test_a_shrinking_backlog_says_when_it_will_be_gone() -> None:
    found = outlook([(at, 1000.0 - 10 * at) for at in range(30)])
    assert found.trend == "draining"
    assert found.seconds == pytest.approx(71.0)


def test_a_growing_backlog_has_no_end() -> None:
    found = outlook([(at, 100.0 + 5 * at) for at in range(30)])
    assert (found.trend, found.seconds) == ("growing", None)
    assert found.change_per_second == pytest.approx(5.0)


def test_one_late_sample_does_not_turn_the_trend() -> None:
    history = [(float(at), 1000.0 - 10 * at) for at in range(30)]
    history[-1] = (29.0, history[-2][1] + 5)
    assert outlook(history).trend == "draining"


def test_what_was_before_the_window_does_not_count() -> None:
    grown = [(float(at), 10.0 * at) for at in range(300)]
    shrinking = [(300.0 + at, 3000.0 - 20 * at) for at in range(61)]
    assert outlook(grown + shrinking).trend == "draining"


def test_a_backlog_that_barely_moves_is_steady() -> None:
    assert outlook([(float(at), 1000.0) for at in range(10)]).trend == "steady"
    assert outlook([(1.0, 1000.0)]).trend == "steady"
