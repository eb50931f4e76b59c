"""Who goes first on the way to the cloud."""

from typing import Final

from farmiq.contracts.telemetry import Lane

# Live samples overtake a backlog on the way to the cloud, as they do on the way to the edge.
PRIORITY: Final[dict[Lane, int]] = {"live": 10, "replay": 0}
PRIORITY_LOSS: Final = 20
