from itertools import combinations

import pytest

from farmiq.torture.plan import (
    AT_ANY_TIME,
    AT_ONCE_MAX,
    LINK_KINDS,
    ON_REQUEST,
    SECONDS,
    STRANGER_KINDS,
    Fault,
    Kind,
    Targets,
    make_plan,
)

FARM = Targets(
    processes=["postgres", "rabbitmq", "mosquitto", "seaweedfs", "relay",
        "edge-ingress-gateway", "cloud-ingestion", "forwarder-a"],
    links=["wan", "broker", "edge-db"],
    nodes=["node-a", "node-b"],
    small_disks=["node-a"],
    bus_events=["ingest", "kpi"],
    registered=["sensor", "node-a", "node-b"],
    forwarders=["forwarder-a"],
    strangers=["near", "far"],
)  # fmt: skip
SEEDS = range(20)
USUAL = set(Kind) - ON_REQUEST


def plan(
    seed: int = 7,
    seconds: float = 600.0,
    count: int = 400,
    targets: Targets = FARM,
    also: frozenset[Kind] = frozenset(),
) -> list[Fault]:
    return make_plan(seed, seconds, count, targets, also)


def test_the_same_seed_is_the_same_plan_and_another_one_is_not() -> None:
    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_come_in_order_within_their_time(seed: int) -> None:
    faults = plan(seed)
    assert [fault.number for fault in faults] == list(range(1, 401))
    times = [fault.at_seconds for fault in faults]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= 600


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_and_every_target_is_hit(seed: int) -> None:
    faults = plan(seed)
    assert {fault.kind for fault in faults} == USUAL
    assert {fault.target for fault in faults if fault.kind is Kind.REGISTER} <= set(FARM.registered)
    assert {fault.target for fault in faults if fault.kind is Kind.KILL} == set(FARM.processes)
    assert {fault.target for fault in faults if fault.kind in LINK_KINDS} == set(FARM.links)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_campaign_has_one_of_each_kind_too(seed: int) -> None:
    assert {fault.kind for fault in make_plan(seed, 40, 2 * len(Kind), FARM)} == USUAL


@pytest.mark.parametrize("kind", sorted(ON_REQUEST))
def test_a_kind_on_request_comes_where_it_is_asked_for(kind: Kind) -> None:
    assert {fault.kind for fault in plan(also=frozenset({kind}))} == USUAL | {kind}


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_hit_again_before_it_could_recover(seed: int) -> None:
    """A process that is stopped and killed, or a link that is cut twice, would be healed by the first of the two."""
    lasting = [fault for fault in plan(seed) if fault.kind not in AT_ANY_TIME]
    for earlier, later in combinations(lasting, 2):
        if earlier.target == later.target:
            assert later.at_seconds >= earlier.until_seconds


@pytest.mark.parametrize("seed", SEEDS)
def test_no_more_last_at_once_than_allowed(seed: int) -> None:
    faults = plan(seed)
    for fault in faults:
        lasting = [other for other in faults if other.at_seconds <= fault.at_seconds < other.until_seconds]
        assert len(lasting) <= AT_ONCE_MAX


@pytest.mark.parametrize("seed", SEEDS)
def test_what_lasts_ends_by_itself_and_what_does_not_takes_no_time(seed: int) -> None:
    for fault in plan(seed):
        assert (fault.seconds > 0) == (fault.kind in SECONDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_strangers_attack_with_their_own_login_or_choose_a_node(seed: int) -> None:
    faults = [fault for fault in plan(seed) if fault.kind in STRANGER_KINDS]
    own = {Kind.SHARE_GROUP, Kind.FLOOD, Kind.RETAINED}
    assert {fault.target for fault in faults if fault.kind in own} == set(FARM.strangers)
    assert {fault.target for fault in faults if fault.kind not in own} == set(FARM.nodes)


def test_what_has_no_target_is_left_out() -> None:
    bare = Targets(processes=["mosquitto"], links=[], nodes=["node-a"], small_disks=[], bus_events=[])
    kinds = {fault.kind for fault in plan(targets=bare)}
    assert kinds == {Kind.KILL, Kind.PAUSE, Kind.STORM, Kind.CLOCK, Kind.CLOUD_RESEND, Kind.POISON_MQTT}
