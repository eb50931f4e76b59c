"""How much disk and how much line a farm needs. Pure: what is measured and how long things are kept comes in, bytes come out.

In    `Farm`: nodes with channels, stations with pictures, the outage to survive, how long things are kept.
Out   `size_of`: bytes on a node, on a station and at the edge, and what the line to the cloud must carry.
      `edge_runway_seconds`, `node_runway_seconds`: how long a given disk lasts while the next tier is away.
      `raw_days_that_fit`: for how long samples may be kept on a given disk.

`measured` holds what one sample, one batch and one picture cost. `benchmarks/measure_bytes.py` measures these again.
"""

from farmiq.sizing.farm import BadFarm, Farm, Kept
from farmiq.sizing.runway import edge_runway_seconds, node_runway_seconds, raw_days_that_fit
from farmiq.sizing.sizes import EdgeBytes, NodeBytes, Sizes, StationBytes, Uplink, edge_bytes, size_of

__all__ = [
    "BadFarm",
    "EdgeBytes",
    "Farm",
    "Kept",
    "NodeBytes",
    "Sizes",
    "StationBytes",
    "Uplink",
    "edge_bytes",
    "edge_runway_seconds",
    "node_runway_seconds",
    "raw_days_that_fit",
    "size_of",
]
