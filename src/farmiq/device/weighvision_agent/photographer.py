"""Pictures from the camera, made to fit, one at a time."""

import asyncio
from datetime import datetime
from typing import NamedTuple

from farmiq.contracts.media import ContentType
from farmiq.device.weighvision_agent.drivers import Camera, DriverFault
from farmiq.device.weighvision_agent.faults import Faults
from farmiq.device.weighvision_agent.own_thread import OwnThread
from farmiq.device.weighvision_agent.scaling import fitted
from farmiq.device.weighvision_agent.station_file import PictureTable
from farmiq.kit.clock import Clock


class Shot(NamedTuple):
    data: bytes
    content_type: ContentType
    captured_at: datetime


class Photographer:
    def __init__(
        self, camera: Camera, timeout_seconds: float, limits: PictureTable, faults: Faults, clock: Clock
    ) -> None:
        self._thread = OwnThread("camera", camera.capture, camera.close)
        self._timeout_seconds = timeout_seconds
        self._limits = limits
        self._faults = faults
        self._clock = clock
        self._turn = asyncio.Lock()

    async def take(self) -> Shot | None:
        """None when the camera has none to give: that is shown, and the station goes on without."""
        async with self._turn:
            captured_at = self._clock.now()
            try:
                data = await self._thread.call(self._timeout_seconds)
                fitting, content_type = await asyncio.to_thread(fitted, data, self._limits)
            except DriverFault as fault:
                self._faults.failed("camera", str(fault))
                return None
        self._faults.worked("camera")
        return Shot(fitting, content_type, captured_at)

    def close(self) -> None:
        self._thread.end()
