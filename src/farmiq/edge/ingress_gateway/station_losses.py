"""What a weigh station has given up: it is in the ledger, and a person is told of it, in the same commit that takes the station's
word for it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from farmiq.contracts.station import STATION_LOSS, StationLoss
from farmiq.edge.alerts import Kind, raise_alert
from farmiq.edge.ingress_gateway.integrator_events import IntegratorEvent
from farmiq.edge.ingress_gateway.screening import Screened
from farmiq.edge.telemetry_timeseries import intake as telemetry
from farmiq.kit.postgres import Connection

KIND: Final[Kind] = "station_loss"


async def note_station_losses(
    connection: Connection, said: Sequence[tuple[Screened, IntegratorEvent]], received_at: datetime
) -> None:
    """One alert for a station and a day: a station that is out of order must not fill the table."""
    losses = [(message, event) for message, event in said if event.event_type == STATION_LOSS]
    # In one order, so that two replicas never wait for each other.
    for message, event in sorted(losses, key=lambda one: one[0].origin):
        origin = message.origin
        await telemetry.record_station_loss(
            connection, origin, message.event_id, event.at, bytes(event.payload), received_at
        )
        subject, evidence = described(origin.device_id, event.payload)
        key = f"station-loss:{origin.device_id}:{received_at:%Y-%m-%d}"
        await raise_alert(connection, KIND, subject, key, evidence, origin.tenant_id)


def described(device_id: str, payload: msgspec.Raw) -> tuple[str, dict[str, Any]]:
    """A loss that can't be read is a loss all the same."""
    try:
        loss = msgspec.json.decode(payload, type=StationLoss)
    except msgspec.DecodeError:
        return f"{device_id} has given something up, and does not say what", {"device_id": device_id}
    evidence = {"device_id": device_id} | {
        name: getattr(loss, name) for name in ("reason", "count", "pictures", "events", "first_ts", "last_ts")
    }
    count = f"{loss.count}" if loss.is_count_exact else f"at least {loss.count}"
    return f"{device_id} has given up {count} events and pictures: {loss.reason}"[:300], evidence
