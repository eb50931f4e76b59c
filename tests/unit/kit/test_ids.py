from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from farmiq.kit.ids import new_id, new_trace_id, sample_id


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
    ids = {seq: sample_id(stream, seq) for seq in seqs}

    assert len(set(ids.values())) == len(seqs)
    assert all(sample_id(stream, seq) == made for seq, made in ids.items())


@given(stream=st.uuids(version=4), seq=st.integers(0, 2**62))
def test_neighbours_in_the_stream_are_neighbours_in_the_index(stream: UUID, seq: int) -> None:
    first, second = sample_id(stream, seq).int, sample_id(stream, seq + 1).int

    assert second - first in (1, 1 - 2**64)
