"""What the services tell, as far as the first page needs it. A field that is None was not told."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from farmiq.console.fleet.answers import Limits
from farmiq.console.overview.delay import Delay


class LatestLoss(Struct, frozen=True):
    device_id: str
    count: int
    reason: str
    recorded_at: datetime


class Lost(Struct, frozen=True):
    samples: int = 0
    losses: int = 0
    devices: int = 0
    latest: LatestLoss | None = None


class StationsLost(Struct, frozen=True):
    """What weigh stations gave up: `lost` are events and pictures together. `device_id` is the station if it was one."""

    losses: int = 0
    lost: int = 0
    pictures: int = 0
    stations: int = 0
    last_at: datetime | None = None
    device_id: str | None = None


class Summary(Struct, frozen=True):
    """One tier's `GET /api/v1/telemetry/summary`."""

    stored: int
    missing: int = 0
    lost: Lost = Lost()
    stations_lost: StationsLost = StationsLost()
    by_device: Mapping[str, int] = {}


class DeviceStored(Struct, frozen=True):
    device_id: str
    stored: int


class SummaryPage(Struct, frozen=True):
    """Of some devices. What is of the whole tenant stands on the first page."""

    stored: int
    missing: int | None = None
    lost: Lost | None = None
    stations_lost: StationsLost | None = None
    next: str | None = None
    devices: list[DeviceStored] | None = None


class Day(Struct, frozen=True):
    """The last 24 hours at both tiers. The edge was asked first, so that what is only on its way is not counted as behind."""

    edge: Summary | None = None
    cloud: Summary | None = None


class Fleet(Struct, frozen=True):
    """`GET /api/v1/fleet`."""

    online: int = 0
    quiet: int = 0
    never_heard: int = 0
    idle: int = 0
    unacked_samples: int = 0
    oldest_seconds: float = 0.0
    room_seconds: float | None = None
    room_device_id: str | None = None


class Link(Struct, frozen=True):
    """One tenant's way to the cloud, of `GET /api/v1/sync/detail`."""

    tenant_id: str
    consecutive_failures: int = 0
    paused_until: datetime | None = None
    last_acked_at: datetime | None = None
    last_error_code: str | None = None
    last_error_at: datetime | None = None


class WaitingPicture(Struct, frozen=True):
    created_at: datetime


class Pictures(Struct, frozen=True):
    """`GET /api/v1/sync/media` of one tenant: the counts, and some that wait."""

    pending_count: int = 0
    sending_count: int = 0
    failed_count: int = 0
    entries: list[WaitingPicture] = []

    @property
    def waiting(self) -> int:
        return self.pending_count + self.sending_count

    @property
    def oldest_at(self) -> datetime | None:
        return min((entry.created_at for entry in self.entries), default=None)


class PictureCounts(Struct, frozen=True):
    """Of one session, those that it has and that are not stored at the edge, by where they are."""

    unheard: int = 0
    presigned: int = 0
    awaited: int = 0
    missing: int = 0
    refused: int = 0

    @property
    def not_stored(self) -> int:
        return self.unheard + self.presigned + self.awaited + self.missing + self.refused


class IncompleteSession(Struct, frozen=True):
    id: UUID
    device_id: str
    incomplete_since: datetime | None = None
    pictures: PictureCounts = PictureCounts()


class Weighings(Struct, frozen=True):
    """Sessions that wait for something for too long. `next` is set when there are more than were asked for."""

    sessions: list[IncompleteSession] = []
    next: str | None = None

    @property
    def pictures_missing(self) -> int:
        """Not at the edge, and not refused by it."""
        return sum(one.pictures.not_stored - one.pictures.refused for one in self.sessions)

    @property
    def pictures_refused(self) -> int:
        return sum(one.pictures.refused for one in self.sessions)

    @property
    def since(self) -> datetime | None:
        return min((one.incomplete_since for one in self.sessions if one.incomplete_since), default=None)

    @property
    def stations(self) -> list[str]:
        return sorted({one.device_id for one in self.sessions})


class Room(Struct, frozen=True):
    disk_free_bytes: int | None = None
    disk_bytes: int | None = None


class Bus(Struct, frozen=True):
    """Messages in RabbitMQ, as the cloud's services saw them last: those that wait, and those that were given up."""

    waiting: int | None = None
    dead: int | None = None
    dead_queues: Mapping[str, int] = {}


class Figures(Struct, frozen=True, kw_only=True):
    """Everything that is asked besides the pulse, of one tenant."""

    day: Day = Day()
    fleet: Fleet | None = None
    link: Link | None = None
    pictures: Pictures | None = None
    weighings: Weighings | None = None
    limits: Limits = Limits()
    room: Room = Room()
    bus: Bus = Bus()
    delay: Delay | None = None
    pictures_per_second: float | None = None
    picture_bytes_per_second: float | None = None
