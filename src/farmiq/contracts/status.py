"""`device.status`: retained, and the last will of every device says offline.

Only `state` is required: a bare sensor and the will itself know none of the figures.
"""

from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from farmiq.contracts.ids import Id
from farmiq.contracts.telemetry import Count, Seq

DeviceState = Literal["online", "offline"]
ReplayState = Literal["idle", "draining"]
Figure = Annotated[float, Meta(ge=0)]


class LossRange(Struct, frozen=True, kw_only=True):
    first_seq: Seq
    last_seq: Seq

    def __post_init__(self) -> None:
        if self.first_seq > self.last_seq:
            raise ValueError("first_seq is above last_seq")


class FailedSession(Struct, frozen=True):
    """A weighing of which the station had to give something up."""

    session_id: UUID
    reason: Annotated[str, Meta(max_length=300)]


class DeviceStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    state: DeviceState
    software_version: Annotated[str, Meta(max_length=64)] | None = None
    stream_id: UUID | None = None
    boot_id: UUID | None = None
    epoch: UUID | None = None
    former_streams: Annotated[list[UUID], Meta(max_length=64)] = []
    """Streams that the device's spool holds besides `stream_id`: they go on until the edge has them."""
    uptime_seconds: Figure | None = None

    spool_bytes: Count | None = None
    spool_bytes_max: Count | None = None
    segments_open: Count | None = None
    segments_closed: Count | None = None
    oldest_sample_age_seconds: Figure | None = None
    written_bytes_per_sample: Figure | None = None

    last_captured_seq: Count | None = None
    last_published_seq: Count | None = None
    last_acked_seq: Count | None = None
    unacked_count: Count | None = None

    dropped_count: Count | None = None
    dropped_ranges: Annotated[list[LossRange], Meta(max_length=64)] = []
    """The latest ones only: the full list travels as `telemetry.loss`."""
    not_captured_count: Count | None = None

    replay_state: ReplayState | None = None
    replay_msgs_per_sec: Figure | None = None
    replay_bytes_per_sec: Figure | None = None
    replay_window_samples: Count | None = None
    """How many replayed samples may wait for their acknowledgement: it shrinks while the edge lags."""
    drain_seconds_estimated: Figure | None = None
    runway_seconds: Figure | None = None
    faulty_sensors: Annotated[list[Id], Meta(max_length=1024)] = []

    # A weigh station's own: its `unacked_count` are events, and its `spool_bytes` are pictures.
    pictures_waiting_count: Count | None = None
    rejected_count: Count | None = None
    failed_sessions_count: Count | None = None
    failed_sessions: Annotated[tuple[FailedSession, ...], Meta(max_length=64)] = ()
    """The newest ones only."""
    unweighed_count: Count | None = None
    upload_trouble: Annotated[str, Meta(max_length=300)] | None = None
    """Why no picture can be uploaded at this moment."""
    put_off_code: Id | None = None
    """Why the edge does not take what is sent at this moment, and lets the device keep it: `not_provisioned`, for instance."""

    time_request: bool = False
    """The device's clock is not right: an edge that knows this field responds with its time, in `time` of an acknowledgement."""
