"""A picture that was given up is something a person should look at: one alert for a tenant and a reason."""

from collections.abc import Mapping
from typing import Final

from farmiq.edge.alerts import Kind, close_alert, raise_alert
from farmiq.edge.sync_forwarder.pictures.store import Claimed
from farmiq.kit.postgres import Connection
from farmiq.outbox.verdicts import Failure

KIND: Final[Kind] = "media_transfer_failed"


async def raise_given_up(connection: Connection, transfer: Claimed, failure: Failure) -> None:
    await raise_alert(
        connection,
        KIND,
        f"A picture cannot be sent to the cloud: {failure.code}",
        _key(failure.code),
        {
            "media_id": str(transfer.media_id),
            "object_key": transfer.object_key,
            "code": failure.code,
            "reason": failure.message,
        },
        transfer.tenant_id,
    )


async def close_settled(
    connection: Connection, before: Mapping[tuple[str, str], int], after: Mapping[tuple[str, str], int]
) -> None:
    """Alerts of which no picture is left. One that fails again opens a new one."""
    for tenant_id, code in before.keys() - after.keys():
        await close_alert(connection, _key(code), tenant_id)


def _key(code: str) -> str:
    return f"{KIND}:{code}"
