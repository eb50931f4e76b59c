"""What each tier said of one device."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from farmiq.audit.buckets import Pair
from farmiq.audit.content import DeviceContent
from farmiq.audit.records import RecordReading
from farmiq.audit.streams import NodeAccount, Packs
from farmiq.timeseries.accounts import DeviceAccount


class Situation(Struct, frozen=True, kw_only=True):
    """What is true of the whole farm. `retired` says by tier how many samples retention has taken from the aggregates."""

    tenant_id: str
    retired: Mapping[str, int] = {}
    is_raw_sent: bool = True
    are_aggregates_sent: bool = False
    windows: Sequence[str] = ("1h", "1d")
    """Those of hours and days that the cloud should have."""


class Earlier(Struct, frozen=True):
    """What was said before of one device: by the `edge` at first and, when it is asked for the last time, how many single
    readings of that time were `in_outbox` the last time but one."""

    edge: DeviceAccount | None
    in_outbox: int | None = None


class DeviceReading(Struct, frozen=True, kw_only=True):
    """What each tier said of one device. `single_waiting` and `single_dead` are events in the edge's outbox, `single_recent` have
    just left it, and `single_old_in_outbox` are those of the first two that were measured before it was first asked. `buckets`
    are not the same at both tiers; None: not compared. `announced`: when aggregates begin that the cloud is being told of."""

    device_id: str
    edge: DeviceAccount | None = None
    cloud: DeviceAccount | None = None
    nodes: Mapping[UUID, NodeAccount] = {}
    packs: Mapping[UUID, Packs] = {}
    single_waiting: int = 0
    single_dead: int = 0
    single_old_in_outbox: int = 0
    single_recent: int = 0
    readings: RecordReading | None = None
    """Single readings, where both tiers have named them. None: they are counted."""
    buckets: Sequence[Pair] | None = None
    announced: Sequence[datetime] = ()
    content: DeviceContent | None = None
    earlier: Earlier | None = None
