from datetime import UTC, datetime, timedelta, timezone
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from farmiq.kit.ids import Naming, keyed_uuid7, new_id, new_trace_id, reading_id, sample_id, time_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = st.datetimes(timezones=st.just(UTC))
KEYS = st.binary(min_size=1, max_size=64)


def test_new_ids_are_version_7_and_ordered_by_time() -> None:
    ids = [new_id() for _ in range(1000)]

    assert {each.version for each in ids} == {7}
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000


@given(key=KEYS, at=TIMES, part=st.text(), other=st.text(), hours=st.integers(-12, 12))
def test_a_keyed_id_is_a_version_7_that_follows_from_key_time_and_parts(
    key: bytes, at: datetime, part: str, other: str, hours: int
) -> None:
    made = keyed_uuid7(key, at, part, 1)

    assert (made.version, made.variant) == (7, RFC_4122)
    assert keyed_uuid7(key, at, part, 1) == made
    assert (keyed_uuid7(key, at, other, 1) == made) == (part == other)
    assert keyed_uuid7(key + b"1", at, part, 1) != made
    assert keyed_uuid7(key, at, part + "1") != made
    if timedelta(days=1) < at - datetime.min.replace(tzinfo=UTC) and at < datetime(9999, 12, 1, tzinfo=UTC):
        assert keyed_uuid7(key, at.astimezone(timezone(timedelta(hours=hours))), part, 1) == made


@given(times=st.lists(TIMES, min_size=2, max_size=20))
def test_keyed_ids_are_in_the_order_of_their_times_as_far_as_milliseconds_tell(times: list[datetime]) -> None:
    milliseconds = [max((at - EPOCH) // timedelta(milliseconds=1), 0) for at in times]
    by_id = sorted(zip((keyed_uuid7(b"key", at) for at in times), milliseconds, strict=True))

    assert [place for _, place in by_id] == sorted(milliseconds)


@given(at=TIMES)
def test_a_clock_before_1970_counts_as_1970(at: datetime) -> None:
    read = time_of(keyed_uuid7(b"key", at))

    assert read == EPOCH if at < EPOCH else timedelta() <= at - read < timedelta(milliseconds=1)


@given(any_id=st.uuids())
def test_every_id_has_some_time(any_id: UUID) -> None:
    assert time_of(any_id) >= EPOCH


@given(at=TIMES, since=TIMES)
def test_what_an_earlier_release_may_have_named_keeps_its_name(at: datetime, since: datetime) -> None:
    first = UUID(int=5)

    assert (Naming(b"key", since).name(at, lambda: first, "x") == first) == (at < since)
    assert Naming(b"key", None).name(at, lambda: first, "x") == keyed_uuid7(b"key", at, "x")


def test_a_trace_id_has_the_form_of_w3c() -> None:
    trace_id = new_trace_id()

    assert len(trace_id) == 32
    assert int(trace_id, 16) > 0


@given(stream=st.uuids(version=4), seqs=st.sets(st.integers(0, 2**63 - 1), min_size=2, max_size=50))
def test_a_sample_has_one_id_for_ever_and_shares_it_with_no_other_of_its_stream(stream: UUID, seqs: set[int]) -> None:
    ids = {seq: sample_id("demo", stream, seq) for seq in seqs}

    assert len(set(ids.values())) == len(seqs)
    assert all(sample_id("demo", stream, seq) == made for seq, made in ids.items())


@given(stream=st.uuids(version=4), seq=st.integers(0, 2**62))
def test_neighbours_in_the_stream_are_neighbours_in_the_index(stream: UUID, seq: int) -> None:
    first, second = sample_id("demo", stream, seq), sample_id("demo", stream, seq + 1)

    assert second.int - first.int == 1 or (seq + 1) % 65536 == 0


@given(stream=st.uuids(), seq=st.integers(0, 2**63 - 1), neighbour=st.integers(1, 5000))
def test_no_other_tenant_and_no_other_stream_gets_the_id_of_a_sample(stream: UUID, seq: int, neighbour: int) -> None:
    made = sample_id("demo", stream, seq)

    assert made != sample_id("tenant-1", stream, seq)
    assert made != sample_id("demo", UUID(int=(stream.int + neighbour) % 2**128), max(0, seq - neighbour))


@given(stream=st.uuids(), seq=st.integers(0, 2**63 - 1), event_id=st.uuids())
def test_no_single_reading_is_stored_under_the_id_of_a_sample(stream: UUID, seq: int, event_id: UUID) -> None:
    made = sample_id("demo", stream, seq)

    assert made.version == 8
    assert reading_id(made) != made
    assert reading_id(made).int >> 76 & 0xF == 9
    assert reading_id(event_id) == event_id or event_id.int >> 76 & 0xF == 8
