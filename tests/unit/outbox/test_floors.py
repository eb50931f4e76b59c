from datetime import UTC, datetime, timedelta

from msgspec import Raw

from farmiq.kit.ids import new_id
from farmiq.outbox.claim import Floor
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.floors import Floors, FullLook

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(seconds: float | None, priority: int = 0, *, is_suspect: bool = False) -> ClaimedEvent:
    return ClaimedEvent(
        id=new_id(),
        claim_token=1,
        attempt_count=0,
        tenant_id="demo",
        farm_id=None,
        barn_id=None,
        device_id=None,
        session_id=None,
        event_type="test.event",
        occurred_at=NOON + timedelta(seconds=seconds or 0),
        is_time_known=seconds is not None,
        trace_id=None,
        priority=priority,
        is_suspect=is_suspect,
        payload=Raw(b"{}"),
    )


def floor(seconds: float, priority: int = 0) -> Floor:
    return Floor(priority, NOON + timedelta(seconds=seconds))


def test_a_floor_is_the_last_claimed_of_each_priority_and_the_highest_comes_first() -> None:
    floors = Floors()
    assert floors.of("demo") == []
    floors.claimed("demo", [event(5, 10), event(1), event(2), event(None)])
    assert floors.of("demo") == [floor(5, 10), floor(2)]
    floors.claimed("demo", [event(3)])
    assert floors.of("demo") == [floor(5, 10), floor(3)]
    assert floors.of("another") == []


def test_a_floor_comes_down_to_what_a_full_look_found_below_it() -> None:
    floors = Floors()
    floors.claimed("demo", [event(100)])
    floors.claimed("demo", [event(1), event(2)])
    assert floors.of("demo") == [floor(2)]


def test_only_tenants_with_something_to_send_are_asked_for() -> None:
    floors = Floors()
    floors.claimed("a", [event(1)])
    floors.claimed("b", [event(1)])
    floors.forget_others(["b", "c"])
    assert floors.tenants == ["b", "c"]
    assert (floors.of("a"), floors.of("b"), floors.of("c")) == ([], [floor(1)], [])


def test_a_full_look_rests_ten_times_as_long_as_it_took_and_never_long() -> None:
    look = FullLook()
    assert look.is_due(0.0)
    look.done(100.0, 0.002, has_found=False)
    assert not look.is_due(100.019)
    assert look.is_due(100.021)
    look.done(200.0, 60.0, has_found=True)
    assert look.due_in_seconds(200.5) == 0.5
    assert look.is_due(201.0)
    assert look.has_found
    look.hurry()
    assert look.is_due(200.0)
