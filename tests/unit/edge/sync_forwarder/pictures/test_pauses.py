from farmiq.edge.sync_forwarder.pictures.pauses import Pauses


def may(pauses: Pauses, now: float, *, is_under_way: bool = False) -> bool:
    return pauses.may_send("a", now, is_under_way=is_under_way)


def test_pauses_grow_to_the_cap_and_only_for_the_tenant() -> None:
    pauses, now = Pauses(cap_seconds=8.0), 0.0
    lengths = []
    for _ in range(5):
        lengths.append(pauses.begin("a", now, None, 0.0))
        assert not may(pauses, now)
        assert pauses.may_send("b", now, is_under_way=True)
        now += lengths[-1]
        assert may(pauses, now)
    assert lengths == [2.0, 4.0, 8.0, 8.0, 8.0]


def test_after_a_pause_one_picture_finds_out() -> None:
    pauses = Pauses(cap_seconds=8.0)
    seconds = pauses.begin("a", 0.0, None, 0.0)
    assert not may(pauses, seconds, is_under_way=True)
    assert may(pauses, seconds)
    pauses.end("a")
    assert may(pauses, seconds, is_under_way=True)
    assert len(pauses) == 0


def test_pictures_that_were_all_under_way_saw_one_failure() -> None:
    pauses = Pauses(cap_seconds=60.0)
    assert [pauses.begin("a", 0.0, None, 0.0) for _ in range(4)] == [2.0] * 4
    assert pauses.begin("a", 2.0, None, 0.0) == 4.0


def test_retry_after_is_honoured_and_an_operator_cuts_it_short() -> None:
    pauses = Pauses(cap_seconds=60.0)
    assert pauses.begin("a", 0.0, 600.0, 0.0) == 600.0
    assert pauses.next_seconds(100.0) == 500.0
    pauses.cut_short(100.0)
    assert may(pauses, 100.0)
    assert pauses.next_seconds(100.0) is None
