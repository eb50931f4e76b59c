from importlib.metadata import entry_points
from pathlib import Path

import pytest

from farmiq.device.weighvision_agent.drivers.folder import FolderTable
from farmiq.device.weighvision_agent.drivers.serial_scale import SerialScaleTable
from farmiq.device.weighvision_agent.plugins import CAMERAS, SCALES
from farmiq.device.weighvision_agent.station_file import BadStationFile, load_station
from farmiq.sim.station import HerdCameraTable, HerdTable

GOOD = """
[scale]
driver = "serial"
port = "/dev/ttyUSB0"
protocol = "toledo"
checksum = true

[camera]
driver = "folder"
folder = "/srv/pictures"

[session]
detect_kg = 8
batch_id = "batch-7"

[schedule]
every_seconds = 600
with_weight = true

[picture]
edge_pixels_max = 1280
"""


def written(folder: Path, text: str) -> str:
    path = folder / "station.toml"
    path.write_text(text)
    return str(path)


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    station = load_station(written(tmp_path, GOOD))
    assert station.scale == SerialScaleTable(driver="serial", port="/dev/ttyUSB0", protocol="toledo", checksum=True)
    assert station.camera == FolderTable(driver="folder", folder="/srv/pictures")
    assert (station.session.detect_kg, station.session.batch_id) == (8.0, "batch-7")
    assert station.session.rules(station.scale).silent_seconds == station.scale.timeout_seconds
    assert station.schedule is not None
    assert (station.schedule.every_seconds, station.schedule.with_weight) == (600.0, True)
    assert station.picture.edge_pixels_max == 1280


def test_without_a_file_the_station_is_simulated() -> None:
    station = load_station(None)
    assert (type(station.camera), type(station.scale)) == (HerdCameraTable, HerdTable)
    assert station.schedule is None


def test_our_own_plug_ins_are_found_by_their_entry_points() -> None:
    assert {point.name for point in entry_points(group=CAMERAS)} >= {"folder", "simulated", "v4l2"}
    assert {point.name for point in entry_points(group=SCALES)} >= {"serial", "simulated"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"serial"', '"cereal"', "scale.driver: there is no scale 'cereal': installed are .*serial, simulated"),
        (
            '"folder"\n',
            '"webcam"\n',
            "camera.driver: there is no camera 'webcam': installed are folder, simulated, v4l2",
        ),
        ('driver = "serial"\n', "", "scale.driver is missing"),
        ('"toledo"', '"morse"', r"scale.protocol: .*allowed are 'toledo', 'ascii'"),
        ('"toledo"', '"ascii"', "checksum is there for the protocol 'toledo' only"),
        ("detect_kg = 8", "detect_kg = 0", "session.detect_kg"),
        ("detect_kg = 8", "detect_kg = 8\nmax_kg = 7", "max_kg 7 has to be above detect_kg 8"),
        ("detect_kg", "detekt_kg", "session.detekt_kg is unknown: allowed are detect_kg, "),
        ("batch-7", "../7", "batch_id"),
        ("[schedule]", "[shedule]", r"unknown table \[shedule\]"),
        ("every_seconds = 600", "every_seconds = 0.1", "schedule.every_seconds"),
        ("edge_pixels_max = 1280", "edge_pixels_max = 1", "picture.edge_pixels_max"),
        ("[picture]", "picture = 3\n[other]", "picture"),
        ("[scale]", "[scale", "is not TOML"),
    ],
)
def test_every_wrong_key_is_named(before: str, after: str, said: str, tmp_path: Path) -> None:
    assert before in GOOD
    with pytest.raises(BadStationFile, match=said):
        load_station(written(tmp_path, GOOD.replace(before, after, 1)))


def test_several_wrong_keys_are_named_together(tmp_path: Path) -> None:
    text = GOOD.replace("detect_kg = 8", "detect_kg = -1").replace("1280", "3")
    with pytest.raises(BadStationFile, match=r"session\.detect_kg.*; picture\.edge_pixels_max"):
        load_station(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadStationFile, match="cannot be read: No such file"):
        load_station(str(tmp_path / "none.toml"))
