from hypothesis import given
from hypothesis import strategies as st

from farmiq.edge.sync_forwarder.turns import in_turn


def test_the_turn_goes_on_after_the_tenant_that_came_last() -> None:
    assert in_turn(["a", "b", "c"], "") == ["a", "b", "c"]
    assert in_turn(["a", "b", "c"], "a") == ["b", "c", "a"]
    assert in_turn(["a", "c"], "b") == ["c", "a"]
    assert in_turn(["a", "b"], "b") == ["a", "b"]


@given(st.sets(st.text(max_size=4)), st.text(max_size=4))
def test_everybody_has_one_turn(tenants: set[str], last: str) -> None:
    assert sorted(in_turn(sorted(tenants), last)) == sorted(tenants)
