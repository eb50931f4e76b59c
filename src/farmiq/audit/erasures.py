"""A tenant that was erased in the cloud, and of which this edge still has what it stored before."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from farmiq.audit import answers
from farmiq.audit.held import known
from farmiq.console.fleet.answers import Device
from farmiq.console.neighbours import Neighbours
from farmiq.timeseries.accounts import DeviceAccount


class HalfErased(Struct, frozen=True):
    """`device_ids`: those of which the edge has something from before."""

    erased_at: datetime
    erased_by: str
    device_ids: list[str]


async def read_half_erased(
    neighbours: Neighbours,
    cloud: str,
    tenant_id: str,
    registered: Mapping[str, Device],
    accounts: Mapping[str, DeviceAccount],
) -> HalfErased | None:
    answer = await known(neighbours, cloud, "/api/v1/erasures", answers.Erasures, tenant_id=tenant_id)
    if answer is None or not answer.erasures:
        return None
    newest = answer.erasures[0]
    older = older_than(newest.begun_at, registered, accounts)
    return HalfErased(newest.begun_at, newest.erased_by, older) if older else None


def older_than(moment: datetime, registered: Mapping[str, Device], accounts: Mapping[str, DeviceAccount]) -> list[str]:
    """Devices that were registered, or heard, before."""
    known_before = {name for name, one in registered.items() if one.created_at is not None and one.created_at < moment}
    heard_before = {
        name for name, one in accounts.items() if any(stream.first_seen_at < moment for stream in one.streams)
    }
    return sorted(known_before | heard_before)
