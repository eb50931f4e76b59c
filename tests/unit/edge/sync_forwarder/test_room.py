from pathlib import Path

from farmiq.edge.disk import Room, room_on


def test_the_room_is_that_of_the_disk_under_the_folder(tmp_path: Path) -> None:
    room = room_on(str(tmp_path))
    assert room.disk_free_bytes is not None
    assert room.disk_bytes is not None
    assert 0 < room.disk_free_bytes <= room.disk_bytes


def test_what_is_not_known_is_not_a_full_disk(tmp_path: Path) -> None:
    assert room_on(None) == Room(None, None)
    assert room_on(str(tmp_path / "gone")) == Room(None, None)
