"""Messages that are not taken as things are, because of the register or of the database: they stay with their devices.

The device is told when to ask again, and a person what to do, in the same commit."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, cast

from farmiq.contracts.ack import NOT_REGISTERED, OF_DEVICE, STREAM_CONTRADICTED, STREAM_OF_ANOTHER_DEVICE
from farmiq.edge.alerts import Kind, open_alerts, raise_alert
from farmiq.edge.ingress_gateway.quotas import Reason, Throttled
from farmiq.edge.ingress_gateway.screening import Refusal
from farmiq.kit.postgres import Connection

KIND: Final[Kind] = "device_put_off"
ASK_AGAIN_SECONDS: Final = 60.0
OVER_AFTER: Final = timedelta(minutes=20)
"""A station asks again after a quarter of an hour at the latest."""
OPEN_MAX: Final = 100
"""Whoever invents devices must not fill the table of alerts."""

_WHY: Final = {
    NOT_REGISTERED: "it is not registered for the tenant, farm and barn that it names. It keeps them",
    STREAM_OF_ANOTHER_DEVICE: "its spool was begun by another device. It keeps them",
    STREAM_CONTRADICTED: "other samples are stored under their numbers. Its disk was set back, or two devices share one identity",
}
_FIX: Final = {
    NOT_REGISTERED: "farmiq device ls shows what is registered; farmiq device add, or put right what the device names",
    STREAM_OF_ANOTHER_DEVICE: "stop the device, move its spool folder away and start it: it begins a stream of its own",
    STREAM_CONTRADICTED: "a device of 0.1.0: update it, and it begins a stream of its own. If it comes again, two machines run as"
    " this device: give one of them an identity of its own with farmiq device add",
}


def limits(refusals: Sequence[Refusal]) -> list[Throttled]:
    """The devices of which nothing is taken until a person has done something about it."""
    found = Counter(
        ((refusal.tenant_id, refusal.device_id), cast("Reason", refusal.code))
        for refusal in refusals
        if refusal.code in OF_DEVICE
    )
    return [
        Throttled((tenant_id, device_id), count, ASK_AGAIN_SECONDS, reason=code)
        for ((tenant_id, device_id), code), count in found.items()
        if tenant_id is not None and device_id is not None
    ]


async def tell(connection: Connection, refusals: Sequence[Refusal]) -> None:
    """One alert for a device and code, however often it comes."""
    put_off = {(one.tenant_id, one.device_id, one.code): one.detail for one in refusals if one.is_put_off}
    if not put_off:
        return
    known = await open_alerts(connection, KIND)
    for tenant_id, device_id, code in sorted(put_off, key=str):
        key = f"put-off:{device_id}:{code}"
        if len(known) < OPEN_MAX or (tenant_id, key) in known:
            evidence: dict[str, object] = {"device_id": device_id, "code": code}
            evidence["detail"] = put_off[tenant_id, device_id, code]
            if code in _FIX:
                evidence["fix"] = _FIX[code]
            why = _WHY.get(code, "the edge's database refuses one of them. The device keeps it")
            subject = f"{device_id} sends, and its messages are not taken: {why}"
            await raise_alert(connection, KIND, subject, key, evidence, tenant_id)
