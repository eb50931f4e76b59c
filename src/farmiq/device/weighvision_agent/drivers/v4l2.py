"""A camera that the kernel shows as /dev/videoN, through OpenCV."""

import importlib
from typing import Annotated, Any, Final

from msgspec import Meta

from farmiq.device.weighvision_agent.drivers.plugin import CameraPlugin, CameraTable, DriverFault
from farmiq.kit.clock import Clock

JPEG_QUALITY: Final = 95
"""Scaled and written once more, with the station's own quality, before it is stored."""


class V4l2Table(CameraTable, frozen=True, kw_only=True):
    device: Annotated[str, Meta(min_length=1)] = "/dev/video0"
    width: Annotated[int, Meta(ge=16, le=16_384)] | None = None
    height: Annotated[int, Meta(ge=16, le=16_384)] | None = None
    # Drivers hand out what they took a while ago: so many frames are thrown away before the one that counts.
    stale_frames: Annotated[int, Meta(ge=0, le=100)] = 4


class V4l2Camera:
    def __init__(self, table: V4l2Table, _clock: Clock) -> None:
        self._table = table
        self._cv2: Any = None
        self._camera: Any = None

    def capture(self) -> bytes:
        camera = self._opened()
        for _ in range(self._table.stale_frames):
            camera.grab()
        is_read, frame = camera.read()
        if not is_read:
            # Unplugged, perhaps: the next picture begins with opening it again.
            self.close()
            raise DriverFault(f"{self._table.device} gave no picture")
        is_written, data = self._cv2.imencode(".jpg", frame, [self._cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
        if not is_written:
            raise DriverFault(f"{self._table.device}: OpenCV could not write the picture as JPEG")
        return bytes(data)

    def close(self) -> None:
        camera, self._camera = self._camera, None
        if camera is not None:
            camera.release()

    def _opened(self) -> Any:
        if self._cv2 is None:
            try:
                self._cv2 = importlib.import_module("cv2")
            except ImportError as error:
                raise DriverFault(f"OpenCV is not installed: pip install farmiq[camera] ({error})") from error
        if self._camera is None:
            camera = self._cv2.VideoCapture(self._table.device, self._cv2.CAP_V4L2)
            if not camera.isOpened():
                camera.release()
                raise DriverFault(
                    f"{self._table.device} cannot be opened: is it there, and is this user in group video?"
                )
            for name, value in (("FRAME_WIDTH", self._table.width), ("FRAME_HEIGHT", self._table.height)):
                if value is not None:
                    camera.set(getattr(self._cv2, f"CAP_PROP_{name}"), value)
            self._camera = camera
        return self._camera


PLUGIN = CameraPlugin(V4l2Table, V4l2Camera)
