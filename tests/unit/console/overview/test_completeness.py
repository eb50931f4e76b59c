from farmiq.console.overview.completeness import GRACE_SECONDS, Completeness, completeness
from farmiq.console.overview.figures import Day, Fleet, Lost, Summary


def found(
    edge: Summary | None,
    cloud: Summary | None,
    fleet: Fleet | None = None,
    *,
    oldest_seconds: float | None = 0.4,
    samples_per_second: float | None = 10.0,
) -> Completeness | None:
    return completeness(
        Day(edge, cloud), fleet, outbox_oldest_seconds=oldest_seconds, samples_per_second=samples_per_second
    )


def test_what_is_on_its_way_is_not_missing() -> None:
    assert found(Summary(1000), Summary(990)) == Completeness(990, on_the_way=10)
    assert found(Summary(1000), Summary(1010)) == Completeness(1010), "the cloud was asked later"


def test_what_waits_for_longer_than_that_is_at_the_edge() -> None:
    late = found(Summary(1000), Summary(990), oldest_seconds=GRACE_SECONDS)
    assert late == Completeness(990, at_edge=10)
    assert late.percent == 99.0


def test_more_than_can_be_on_its_way_is_missing_although_nothing_waits() -> None:
    assert found(Summary(1000), Summary(600), samples_per_second=10) == Completeness(600, at_edge=400)
    assert found(Summary(1000), Summary(999), samples_per_second=0) == Completeness(999, at_edge=1)


def test_what_devices_hold_counts_once_it_is_old() -> None:
    young = Fleet(online=1, unacked_samples=50, oldest_seconds=GRACE_SECONDS - 1)
    old = Fleet(online=1, unacked_samples=50, oldest_seconds=GRACE_SECONDS)
    assert found(Summary(1000), Summary(1000), young) == Completeness(1000)
    assert found(Summary(1000), Summary(1000), old) == Completeness(1000, on_devices=50)


def test_gaps_are_on_devices_as_far_as_these_say_so_and_unexplained_beyond() -> None:
    edge = Summary(1000, missing=80)
    held = Fleet(online=1, unacked_samples=50, oldest_seconds=300)
    assert found(edge, Summary(1000), held) == Completeness(1000, on_devices=50, unexplained=30)
    assert found(edge, Summary(1000), Fleet(online=1)) == Completeness(1000, unexplained=80)


def test_what_is_lost_counts_once_although_both_tiers_tell_of_it() -> None:
    lost = Lost(samples=10, losses=1, devices=1)
    complete = found(Summary(990, lost=lost), Summary(990, lost=lost))
    assert complete == Completeness(990, lost=10)
    assert complete.percent == 99.0


def test_half_an_answer_is_none() -> None:
    assert found(None, Summary(1)) is None
    assert found(Summary(1), None) is None
    nothing = found(Summary(0), Summary(0))
    assert nothing is not None
    assert nothing.percent is None


def test_devices_of_the_tenants_other_edges_make_up_for_nothing_here() -> None:
    here = Summary(1000, by_device={"node-1": 600, "node-2": 400})
    cloud = Summary(9000, by_device={"node-1": 600, "node-2": 85, "elsewhere-1": 8315})
    assert found(here, cloud, oldest_seconds=GRACE_SECONDS) == Completeness(9000, at_edge=315)


def test_over_a_cut_link_nothing_is_on_its_way() -> None:
    day = Day(Summary(1000), Summary(685))
    told = completeness(day, None, outbox_oldest_seconds=0.4, samples_per_second=100, is_link_up=False)
    assert told == Completeness(685, at_edge=315)
    up = completeness(day, None, outbox_oldest_seconds=0.4, samples_per_second=100)
    assert up == Completeness(685, on_the_way=315), "the page says so beside the 100 %"
