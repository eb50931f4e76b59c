"""Cameras and scales by name. Whatever package is installed on the station may bring some."""

from importlib.metadata import entry_points
from typing import Any, Final, TypeVar

from farmiq.device.toml_tables import BadTable
from farmiq.device.weighvision_agent.drivers import CameraPlugin, ScalePlugin

CAMERAS: Final = "farmiq.cameras"
SCALES: Final = "farmiq.scales"

P = TypeVar("P", CameraPlugin[Any], ScalePlugin[Any])


def camera_named(name: str) -> CameraPlugin[Any]:
    return _plugin(CAMERAS, name, "camera", CameraPlugin)


def scale_named(name: str) -> ScalePlugin[Any]:
    return _plugin(SCALES, name, "scale", ScalePlugin)


def _plugin(group: str, name: str, place: str, kind: type[P]) -> P:
    found = {point.value: point for point in entry_points(group=group, name=name)}
    if not found:
        known = ", ".join(sorted({point.name for point in entry_points(group=group)}))
        raise BadTable(f"{place}.driver: there is no {place} {name!r}: installed are {known or 'none'}")
    if len(found) > 1:
        raise BadTable(f"{place}.driver: more than one package brings a {place} {name!r}: {', '.join(sorted(found))}")
    (point,) = found.values()
    try:
        plugin = point.load()
    except (ImportError, AttributeError) as error:
        raise BadTable(f"{place}.driver: {name!r} cannot be loaded from {point.value}: {error}") from error
    if not isinstance(plugin, kind):
        raise BadTable(f"{place}.driver: {name!r} ({point.value}) is not a farmiq {kind.__name__}")
    return plugin
