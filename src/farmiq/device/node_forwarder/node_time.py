"""The true time of this node's samples: asks the edge for the time, keeps what it says as anchors, and corrects by them."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from farmiq.contracts.ack import DeviceAck, TimeResponse
from farmiq.contracts.telemetry import TIME_QUALITY_SYNCED, TIME_QUALITY_UNKNOWN, TimeSegment
from farmiq.contracts.timestamps import to_us
from farmiq.device.handover import Row
from farmiq.device.node_forwarder.timeline import (
    ANCHORS_MAX,
    Anchor,
    Boot,
    Timeline,
    correction_of,
    crystal_of,
)
from farmiq.kit.logging import get_logger
from farmiq.spool import Run, disk

BOOTS_MAX: Final = 64
OWN_UNCERTAINTY_US: Final = 20_000
OWN_SLOT_US: Final = 3_600_000_000
UNCERTAINTY_US_MAX: Final = 1_000_000
"""A response that was on its way for longer than twice this says too little."""
PLAUSIBLE_US: Final = to_us(datetime(2024, 1, 1, tzinfo=UTC))
"""An edge whose clock says less has none, whatever its kernel says of it."""
RETRY_US: Final = 10_000_000
SOON_US: Final = 60_000_000
REPEAT_US: Final = 300_000_000
"""Between two requests, once the rate of this boot is known; until then `SOON_US`."""
LIVE_WAIT_US: Final = 15_000_000
"""For how long live samples of a boot without any anchor are held back for the response that corrects them."""
BACKLOG_WAIT_US: Final = 120_000_000
"""The same of a backlog, if nobody acknowledges anything meanwhile: the edge starts later than its broker, perhaps."""
RESPONSE_US: Final = 5_000_000
"""An edge that acknowledges other things this long after a request does not know requests."""
REQUESTS_MAX: Final = 8

ANCHORS_FILE: Final = "anchors.json"

log = get_logger(__name__)


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    boot_id: UUID
    anchors: list[Anchor]


class NodeTime:
    """Without a `boot_id`, the boot of which this process can read the monotonic time, nothing is asked and nothing corrected.

    Called on the event loop only, but for `write`."""

    def __init__(
        self, boot_id: UUID | None = None, monotonic_us: Callable[[], int] = lambda: 0, folder: Path | None = None
    ) -> None:
        self._boot_id = boot_id
        self._monotonic_us = monotonic_us
        self._path = None if folder is None else folder / ANCHORS_FILE
        self._boots = {} if self._path is None else _load(self._path)
        self._quality: int | None = None
        self._own: Anchor | None = None
        self._requests: dict[UUID, int] = {}
        self._requested_us: int | None = None
        self._unanswered_since_us: int | None = None
        self._waiting_since_us: int | None = None
        self._edge_cannot = False
        self.settled = asyncio.Event()
        """The edge has responded on this connection, or is not going to."""
        self._is_changed = False

    # What the agent hands over

    def note(self, boot_id: UUID, rows: Sequence[Row]) -> None:
        """The newest sample says how good the clock is; while it is good, the sample is an anchor itself."""
        if boot_id != self._boot_id or not rows:
            return
        wall_us, monotonic_us, _, self._quality, _ = rows[-1]
        if self._quality == TIME_QUALITY_SYNCED:
            self._own = Anchor(monotonic_us, wall_us, OWN_UNCERTAINTY_US, TIME_QUALITY_SYNCED, is_own=True)
            last = max((one.monotonic_us for one in self._boot(boot_id).anchors if one.is_own), default=None)
            if last is None or monotonic_us - last >= OWN_SLOT_US:
                self._add(self._own)
        elif self._own is not None:
            # The last moment at which it was right is where its error begins.
            self._add(self._own)
            self._own = None

    # The edge's time

    def connected(self) -> None:
        """To another edge, perhaps, and in any case after a while."""
        if not self._edge_cannot:
            self.settled.clear()
        self._requests.clear()
        self._requested_us = self._unanswered_since_us = self._waiting_since_us = None

    @property
    def is_request_due(self) -> bool:
        if self._boot_id is None or self._quality == TIME_QUALITY_SYNCED:
            return False
        if self._quality is None and self._waiting_since_us is None:
            return False  # neither a sample since this process began, nor one from before that is to be sent
        pause_us = REPEAT_US if self.settled.is_set() else RETRY_US
        if self.settled.is_set() and not self._edge_cannot and self._boot(self._boot_id).rate is None:
            pause_us = SOON_US
        return self._requested_us is None or self._monotonic_us() - self._requested_us >= pause_us

    def requested(self, event_id: UUID) -> None:
        """Before the request is sent: what is measured from here on is never too short."""
        self._requested_us = self._monotonic_us()
        if self._unanswered_since_us is None:
            self._unanswered_since_us = self._requested_us
        self._requests[event_id] = self._requested_us
        if len(self._requests) > REQUESTS_MAX:
            self._requests.pop(next(iter(self._requests)))

    def take(self, ack: DeviceAck) -> None:
        """The response to a request of this connection. The edge had the request after it was sent, and responded before this: so
        its clock is known to within what the two ways took, however long a broker held either back."""
        response, now_us = ack.time, self._monotonic_us()
        if not isinstance(response, TimeResponse) or response.event_id not in self._requests:
            if self._unanswered_since_us is not None and now_us - self._unanswered_since_us >= RESPONSE_US:
                self._edge_cannot = True
                self.settled.set()
            return
        passed_us = now_us - self._requests.pop(response.event_id)
        self._edge_cannot, self._unanswered_since_us = False, None
        self.settled.set()
        earliest_us, latest_us = to_us(ack.ts), to_us(response.received_at) + passed_us
        uncertainty_us = (latest_us - earliest_us) // 2
        if response.quality == TIME_QUALITY_UNKNOWN or earliest_us < PLAUSIBLE_US:
            return
        if not 0 <= uncertainty_us <= UNCERTAINTY_US_MAX:
            return
        self._add(Anchor(now_us, earliest_us + uncertainty_us, uncertainty_us, response.quality))

    # Correcting

    def correction(self, run: Run) -> list[TimeSegment] | UnsetType:
        """For frames of one time quality. Those of a clock that was kept right are left alone, and so is a boot without an
        anchor."""
        boot = self._boots.get(run.header.boot_id)
        if boot is None or run.frames[0].quality >= TIME_QUALITY_SYNCED:
            return UNSET
        return correction_of(Timeline(boot, crystal_of(self._boots.values())), run.frames, run.offset)

    def wait_seconds(self, run: Run, *, is_live: bool) -> float:
        """How long to wait at most for the edge's time before these samples are sent. Not for ever, and not for an edge that
        acknowledged other things and did not respond: it may be one that cannot."""
        if run.header.boot_id != self._boot_id or run.frames[0].quality >= TIME_QUALITY_SYNCED:
            return 0.0
        if self.settled.is_set() or (is_live and self._boot(self._boot_id).anchors):
            return 0.0
        now_us = self._monotonic_us()
        if self._waiting_since_us is None:
            self._waiting_since_us = now_us
        left_us = self._waiting_since_us + (LIVE_WAIT_US if is_live else BACKLOG_WAIT_US) - now_us
        return max(left_us, 0) / 1_000_000

    # Keeping

    def changes(self) -> bytes | None:
        """What is to be written, where there is something new. After a restart without it, times stay as the clock said them."""
        if self._path is None or not self._is_changed:
            return None
        self._is_changed = False
        return msgspec.json.encode([_Kept(boot_id, boot.anchors) for boot_id, boot in self._boots.items()])

    def write(self, changes: bytes) -> None:
        """Durable when this returns."""
        assert self._path is not None  # noqa: S101 - without one there are no changes
        disk.replace_file(self._path, changes)

    def _boot(self, boot_id: UUID) -> Boot:
        return self._boots.get(boot_id) or Boot()

    def _add(self, anchor: Anchor) -> None:
        assert self._boot_id is not None  # noqa: S101 - nothing is noted and nothing requested without one
        boot = self._boots.setdefault(self._boot_id, Boot())
        self._is_changed |= boot.add(anchor)
        while len(self._boots) > BOOTS_MAX:
            self._boots.pop(next(iter(self._boots)))


def _load(path: Path) -> dict[UUID, Boot]:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=list[_Kept])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        # Times stay as the clock said them; samples are not touched by it.
        log.warning("anchors_not_read", reason=str(error))
        return {}
    return {one.boot_id: Boot(one.anchors[-ANCHORS_MAX:]) for one in kept[-BOOTS_MAX:]}
