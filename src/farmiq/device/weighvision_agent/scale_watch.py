"""The scale, read for ever: whatever it does, the rest of the station goes on."""

import asyncio

from farmiq.device.weighvision_agent.detection import Detector
from farmiq.device.weighvision_agent.drivers import DriverFault, Scale
from farmiq.device.weighvision_agent.faults import Faults
from farmiq.device.weighvision_agent.own_thread import OwnThread
from farmiq.device.weighvision_agent.weighing import Weigher
from farmiq.kit.clock import Clock
from farmiq.kit.logging import get_logger

log = get_logger(__name__)

CALL_SECONDS_MAX = 5.0
PAUSE_SECONDS = 0.5
"""After a scale that failed: it is asked again soon, and not in a tight circle."""


class ScaleWatch:
    """Reads the scale for ever, and tells what it means. `shown_kg` is the last weight, for whoever asks in passing."""

    def __init__(self, scale: Scale, timeout_seconds: float, detector: Detector, faults: Faults, clock: Clock) -> None:
        self._thread = OwnThread("scale", scale.read, scale.close)
        self._timeout_seconds = timeout_seconds
        self._detector = detector
        self._faults = faults
        self._clock = clock
        self._heard_at = clock.monotonic()
        self._shown_kg: float | None = None

    def shown_kg(self) -> float | None:
        """None when the scale has been silent for too long to be believed."""
        return None if self._clock.monotonic() - self._heard_at > self._timeout_seconds else self._shown_kg

    async def watch(self, weigher: Weigher) -> None:
        """Until cancelled."""
        while True:
            try:
                weights = await self._thread.call(CALL_SECONDS_MAX)
            except DriverFault as fault:
                self._faults.failed("scale", str(fault))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if weights and self._shown_kg is None:
                log.info("scale_connected", weight_kg=weights[-1].weight_kg)
            for weight in weights:
                self._heard_at, self._shown_kg = weight.at, weight.weight_kg
                for change in self._detector.look(weight.at, weight.weight_kg, is_moving=weight.is_moving):
                    weigher.notice(change)
            if weights:
                self._faults.worked("scale")
            elif self._clock.monotonic() - self._heard_at > self._timeout_seconds:
                self._faults.failed("scale", f"it has said nothing for {self._timeout_seconds:g} s")

    def close(self) -> None:
        self._thread.end()
