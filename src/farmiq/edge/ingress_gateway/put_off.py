"""Devices of which nothing is taken as things are: a person is told, with the command, in the same commit."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from farmiq.contracts.ack import NOT_REGISTERED, STREAM_OF_ANOTHER_DEVICE
from farmiq.edge.alerts import Kind, open_alerts, raise_alert
from farmiq.edge.ingress_gateway.screening import Refusal
from farmiq.kit.postgres import Connection

KIND: Final[Kind] = "device_put_off"
OVER_AFTER: Final = timedelta(minutes=15)
"""Devices ask again every minute, and stations every five."""
OPEN_MAX: Final = 100
"""Whoever invents devices must not fill the table of alerts."""


async def tell(connection: Connection, refusals: Sequence[Refusal]) -> None:
    put_off = {(one.tenant_id, one.device_id, one.code): one for one in refusals if one.is_put_off}
    if not put_off:
        return
    known = await open_alerts(connection, KIND)
    for tenant_id, device_id, code in sorted(put_off, key=str):
        key = f"put-off:{device_id}:{code}"
        if len(known) < OPEN_MAX or (tenant_id, key) in known:
            evidence = {"device_id": device_id, "code": code, "detail": put_off[tenant_id, device_id, code].detail}
            subject = f"{device_id} sends, and its messages are not taken: {_why(code)}"
            await raise_alert(connection, KIND, subject, key, evidence | _mended_by(code), tenant_id)


def _why(code: str) -> str:
    match code:
        case "not_provisioned":
            return "it is not registered for the tenant, farm and barn that it names. It keeps them"
        case "stream_of_another_device":
            return "its spool was begun by another device. It keeps them"
    return "the edge's database refuses one of them. The device keeps it"


def _mended_by(code: str) -> dict[str, object]:
    if code == NOT_REGISTERED:
        return {"command": "farmiq device ls, then farmiq device add"}
    if code == STREAM_OF_ANOTHER_DEVICE:
        return {"command": "give the device a spool folder of its own: its image was made from another device's disk"}
    return {}
