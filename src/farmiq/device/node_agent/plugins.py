"""Drivers by name. Whatever package is installed on the node may bring some."""

from importlib.metadata import entry_points
from typing import Any

from farmiq.device.node_agent.drivers import Plugin
from farmiq.device.toml_tables import BadTable

GROUP = "farmiq.drivers"


def plugin_named(name: str, place: str) -> Plugin[Any]:
    found = {point.value: point for point in entry_points(group=GROUP, name=name)}
    if not found:
        known = ", ".join(sorted(point.name for point in entry_points(group=GROUP)))
        raise BadTable(f"{place}.driver: there is no driver {name!r}: installed are {known or 'none'}")
    if len(found) > 1:
        raise BadTable(f"{place}.driver: more than one package brings a driver {name!r}: {', '.join(sorted(found))}")
    (point,) = found.values()
    try:
        plugin = point.load()
    except (ImportError, AttributeError) as error:
        raise BadTable(f"{place}.driver: {name!r} cannot be loaded from {point.value}: {error}") from error
    if not isinstance(plugin, Plugin):
        raise BadTable(f"{place}.driver: {name!r} ({point.value}) is not a farmiq Plugin")
    return plugin
