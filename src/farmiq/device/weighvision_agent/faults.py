"""Which of camera and scale fail. Each failure and each repair is logged once, however often it is tried in between."""

from typing import Literal

from farmiq.kit.logging import get_logger

Part = Literal["camera", "scale"]

log = get_logger(__name__)


class Faults:
    def __init__(self) -> None:
        self._reasons: dict[Part, str] = {}

    @property
    def parts(self) -> list[str]:
        return sorted(self._reasons)

    def failed(self, part: Part, reason: str) -> None:
        if part not in self._reasons:
            log.error("driver_failed", part=part, reason=reason)
        self._reasons[part] = reason

    def worked(self, part: Part) -> None:
        if self._reasons.pop(part, None) is not None:
            log.info("driver_recovered", part=part)
