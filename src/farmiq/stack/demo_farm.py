"""The farm that every stack has from its first start."""

from typing import Final

TENANT_ID: Final = "demo"
FARM_ID: Final = "farm-1"
BARN_ID: Final = "barn-1"
DEVICE_ID: Final = "node-1"
STATION_ID: Final = "station-1"
EDGE_CLUSTER_ID: Final = "edge-1"
VERIFIED_TENANT_ID: Final = "tenant-1"
"""Has no device. The outbox's requirements insert events of this tenant by hand, to verify that they arrive."""
