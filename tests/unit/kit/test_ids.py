from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from farmiq.kit.ids import new_id, new_trace_id, reading_id, sample_id


def test_new_ids_are_version_7_and_ordered_by_time() -> None:
    ids = [new_id() for _ in range(1000)]

    assert {each.version for each in ids} == {7}
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000


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
