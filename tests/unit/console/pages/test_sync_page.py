from datetime import UTC, datetime, timedelta

from farmiq.console.pages.sync import Link, link_state

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def test_a_link_is_up_only_while_there_is_somebody_at_its_end() -> None:
    assert link_state(Link("demo", 0), NOW, is_cloud_away=False) == ("good", "up")
    assert link_state(Link("demo", 0), NOW, is_cloud_away=True)[0] == "warn"
    paused = Link("demo", 3, NOW + timedelta(seconds=9))
    assert link_state(paused, NOW, is_cloud_away=False) == ("bad", "down, waiting")
    assert link_state(Link("demo", 3, NOW), NOW, is_cloud_away=True) == ("busy", "trying")
