"""A session is a function of the set of its events."""

from itertools import permutations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from farmiq.cloud.telemetry_service.messages import Weighing
from farmiq.cloud.telemetry_service.sessions import Session, by_session
from farmiq.contracts.envelope import BusEnvelope, payload_of
from farmiq.contracts.weighvision import WeightRecorded
from support.cloud_weighings import a_session, cancelled, created, finalized, told
from support.telemetry import ELSEWHERE, HERE, NOW


def weighing(envelope: BusEnvelope) -> Weighing:
    return Weighing(envelope, payload_of(envelope))  # type: ignore[arg-type]  # the tests make weighings only


def folded(envelopes: list[BusEnvelope]) -> Session:
    session = Session(first_event_at=envelopes[0].occurred_at)
    for envelope in envelopes:
        session.add(weighing(envelope))
    return session


events = st.builds(
    lambda payload, event, seconds, has_place, trace_id: msgspec.structs.replace(
        told(payload, event, seconds=seconds, session=1, trace_id=trace_id),
        **({} if has_place else {"farm_id": None, "barn_id": None}),
    ),
    st.one_of(
        st.builds(created, st.sampled_from(["batch-1", "batch-2", None]), st.floats(0, 900) | st.none()),
        st.builds(
            finalized, st.integers(0, 5), st.floats(0, 900) | st.none(), st.integers(0, 3), st.floats(0, 9) | st.none()
        ),
        st.builds(cancelled, st.integers(0, 3), st.sampled_from(["left", None])),
        st.just(WeightRecorded(weight_kg=1.0)),
    ),
    st.integers(1, 10_000),
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from(["trace-1", "trace-2", None]),
)


@given(st.lists(events, min_size=1, max_size=8, unique_by=lambda one: one.event_id), st.randoms(use_true_random=False))
def test_repeated_and_in_any_order_the_events_give_the_same_session(found: list[BusEnvelope], rng: object) -> None:
    expected = folded(found)
    shuffled = [*found, *found]
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis has no public type for it
    assert folded(shuffled) == expected
    assert expected.first_event_at == min(one.occurred_at for one in found)


@given(st.lists(events, min_size=2, max_size=8, unique_by=lambda one: one.event_id), st.integers(0, 8))
def test_what_was_stored_halfway_goes_on_as_if_it_had_come_at_once(found: list[BusEnvelope], cut: int) -> None:
    halfway = folded(found[: max(1, cut)])
    for envelope in found:
        halfway.add(weighing(envelope))
    assert halfway == folded(found)


def test_a_finalized_session_stays_finalized_when_its_creation_comes_late() -> None:
    late = folded([told(finalized(3), 2, seconds=120, session=1), told(created("batch-7"), 1, session=1)])
    assert (late.status, late.start_at, late.batch_id, late.image_count) == ("finalized", NOW, "batch-7", 3)


def test_the_end_of_the_highest_revision_counts_whenever_it_was_said() -> None:
    ends = [
        told(finalized(3, revision=1), 2, seconds=60, session=1),
        told(cancelled(revision=2), 3, seconds=50, session=1),
        told(finalized(9, revision=0), 4, seconds=90, session=1),
    ]
    for order in permutations(ends):
        session = folded(list(order))
        assert (session.status, session.cancel_reason, session.image_count) == ("cancelled", "left", None)
    healed = folded([*ends, told(finalized(4, revision=3, initial_weight_kg=7.0), 5, seconds=60, session=1)])
    assert (healed.status, healed.cancel_reason, healed.initial_weight_kg) == ("finalized", None, 7.0)


def test_the_first_creation_and_the_last_finalization_count() -> None:
    session = folded(
        [
            told(created("second"), 2, seconds=5, session=1),
            told(created("first"), 1, seconds=0, session=1),
            told(finalized(9), 4, seconds=60, session=1),
            told(finalized(1), 3, seconds=50, session=1),
        ]
    )
    assert (session.batch_id, session.image_count) == ("first", 9)


def test_tenants_with_the_same_session_id_have_sessions_of_their_own() -> None:
    events = [weighing(one) for one in a_session(1) + a_session(1, origin=ELSEWHERE)]
    assert {tenant_id for tenant_id, _ in by_session(events)} == {HERE.tenant_id, ELSEWHERE.tenant_id}
