"""Cameras and scales: where pictures and weights come from.

Each is a plug-in: a `CameraPlugin` or `ScalePlugin` that some installed package names in its entry points, group
`farmiq.cameras` or `farmiq.scales`. Ours are found the same way.

    cameras     folder      pictures from a folder, in the order of their names
                v4l2        a camera that the kernel shows as /dev/videoN, through OpenCV
                simulated   rendered animals (`farmiq.sim`)
    scales      serial      a scale on a serial line that goes on saying what it weighs
                simulated   the same rendered animals

`plugin` says what a driver is; `scale_protocols` reads what scales send (pure).
"""

from farmiq.device.weighvision_agent.drivers.plugin import (
    Camera,
    CameraPlugin,
    CameraTable,
    DriverFault,
    Scale,
    ScalePlugin,
    ScaleTable,
    Weight,
)

__all__ = ["Camera", "CameraPlugin", "CameraTable", "DriverFault", "Scale", "ScalePlugin", "ScaleTable", "Weight"]
