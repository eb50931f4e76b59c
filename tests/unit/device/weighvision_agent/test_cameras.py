import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from farmiq.device.weighvision_agent.drivers import DriverFault
from farmiq.device.weighvision_agent.drivers.folder import Folder, FolderTable
from farmiq.device.weighvision_agent.drivers.v4l2 import V4l2Camera, V4l2Table
from farmiq.device.weighvision_agent.scaling import fitted
from farmiq.device.weighvision_agent.station_file import PictureTable
from farmiq.kit.clock import Clock
from support.picture_files import encoded, picture, png_of_size, with_place, zip_behind

LIMITS = PictureTable(edge_pixels_max=640)


def test_a_folder_gives_its_pictures_in_order_and_begins_again(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.JPG", "notes.txt"):
        (tmp_path / name).write_bytes(name.encode())
    camera = Folder(FolderTable(driver="folder", folder=str(tmp_path)), Clock())
    assert [camera.capture() for _ in range(3)] == [b"a.JPG", b"b.jpg", b"a.JPG"]
    (tmp_path / "c.png").write_bytes(b"new")
    assert [camera.capture() for _ in range(2)] == [b"b.jpg", b"new"]
    camera.close()


def test_a_folder_without_pictures_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(DriverFault, match=str(folder)):
            Folder(FolderTable(driver="folder", folder=str(folder)), Clock()).capture()


def test_without_opencv_the_message_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(DriverFault, match=r"pip install farmiq\[camera\]"):
        V4l2Camera(V4l2Table(driver="v4l2"), Clock()).capture()


class Video:
    """What the driver uses of OpenCV's camera. The real one needs a kernel with a camera in it."""

    def __init__(self, *opened_with: object) -> None:
        self.opened_with = opened_with
        self.log: list[object] = []
        self.is_plugged = True

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's own name
        return self.is_plugged

    def set(self, name: str, value: int) -> None:
        self.log.append((name, value))

    def grab(self) -> None:
        self.log.append("grab")

    def read(self) -> tuple[bool, bytes | None]:
        return (True, b"pixels") if self.is_plugged else (False, None)

    def release(self) -> None:
        self.log.append("release")


def test_a_camera_is_opened_once_and_again_after_it_gave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Video] = []

    def open_video(*how: object) -> Video:
        opened.append(Video(*how))
        return opened[-1]

    cv2 = SimpleNamespace(
        VideoCapture=open_video,
        CAP_V4L2=200,
        CAP_PROP_FRAME_WIDTH="width",
        CAP_PROP_FRAME_HEIGHT="height",
        IMWRITE_JPEG_QUALITY=1,
        imencode=lambda _suffix, frame, _options: (True, b"jpeg of " + frame),
    )
    monkeypatch.setitem(sys.modules, "cv2", cv2)
    camera = V4l2Camera(V4l2Table(driver="v4l2", device="/dev/video2", width=1280, stale_frames=2), Clock())
    assert [camera.capture(), camera.capture()] == [b"jpeg of pixels"] * 2
    assert [video.opened_with for video in opened] == [("/dev/video2", 200)]
    assert opened[0].log == [("width", 1280)] + ["grab"] * 4
    opened[0].is_plugged = False
    with pytest.raises(DriverFault, match="/dev/video2 gave no picture"):
        camera.capture()
    assert opened[0].log[-1] == "release"
    assert camera.capture() == b"jpeg of pixels"
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("file_format", "kind"), [("JPEG", "image/jpeg"), ("PNG", "image/png"), ("WEBP", "image/webp")]
)
def test_a_picture_that_fits_is_left_as_the_camera_gave_it(file_format: str, kind: str) -> None:
    data = picture(file_format, 640, 480)
    assert fitted(data, LIMITS) == (data, kind)


def test_a_larger_one_is_scaled_and_stands_upright() -> None:
    data, kind = fitted(with_place(width=1600, height=1200), LIMITS)
    seen = Image.open(io.BytesIO(data))
    assert (kind, seen.size) == ("image/jpeg", (480, 640)), "it was taken with the camera turned by a quarter"
    assert not seen.getexif().get_ifd(0x8825), "where the farm is, nobody needs to know"


def test_a_picture_with_transparency_or_of_more_bytes_than_allowed_becomes_a_jpeg() -> None:
    data, kind = fitted(picture("PNG", 1000, 800, mode="RGBA"), LIMITS)
    assert (kind, Image.open(io.BytesIO(data)).size) == ("image/jpeg", (640, 512))
    noise = encoded(Image.effect_noise((640, 480), 80), "PNG")
    smaller, kind = fitted(noise, PictureTable(edge_pixels_max=640, jpeg_quality=50, bytes_max=len(noise) - 1))
    assert kind == "image/jpeg"
    assert len(smaller) < len(noise)
    with pytest.raises(DriverFault, match="lower jpeg_quality"):
        fitted(noise, PictureTable(edge_pixels_max=640, bytes_max=1024))


@pytest.mark.parametrize(
    "data",
    [b"", b"no picture", picture()[:-100], zip_behind(picture()), png_of_size(60_000, 60_000), b"RIFF" + bytes(40)],
)
def test_what_the_edge_would_refuse_is_refused_here(data: bytes) -> None:
    with pytest.raises(DriverFault):
        fitted(data, LIMITS)
