from farmiq.edge.disk import Room, State, next_state

GIB = 1 << 30


def state(free_gib: float, before: State = "free", disk_gib: float = 100, floor_bytes: int = 2 * GIB) -> State:
    return next_state(before, Room(int(free_gib * GIB), int(disk_gib * GIB)), floor_bytes, 5.0)


def test_the_floor_is_the_lesser_of_bytes_and_percent() -> None:
    assert [state(free) for free in (4.1, 3.9, 1.9)] == ["free", "low", "full"]
    assert [state(free, disk_gib=10) for free in (1.1, 0.9, 0.4)] == ["free", "low", "full"]


def test_a_state_ends_only_when_there_is_clearly_more_room() -> None:
    assert [state(free, "full") for free in (2.4, 2.6, 4.9, 5.1)] == ["full", "low", "low", "free"]
    assert [state(free, "low") for free in (1.9, 4.9, 5.1)] == ["full", "low", "free"]


def test_without_a_floor_or_a_known_disk_nothing_is_stopped() -> None:
    assert state(0.0, floor_bytes=0) == "free"
    assert next_state("full", Room(), 2 * GIB, 5.0) == "free"
