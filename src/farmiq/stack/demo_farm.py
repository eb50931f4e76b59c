"""The farm that every stack has from its first start."""

from typing import Final

TENANT_ID: Final = "demo"
FARM_ID: Final = "farm-1"
BARN_ID: Final = "barn-1"
DEVICE_ID: Final = "node-1"
STATION_ID: Final = "station-1"
EDGE_CLUSTER_ID: Final = "edge-1"
