"""What to do about a cell of the grid: in words, for the person who clicked it."""

from typing import Final

from farmiq.console.fleet.answers import Device
from farmiq.console.fleet.cells import Cell

_NOT_CLAIMED: Final = (
    "The device is online and does not claim these samples. Look at its spool on the device itself (farmiq spool verify) "
    "and at the rejected messages of edge-ingress-gateway."
)
_NOT_THERE: Final = (
    "The device is not online, and these samples were of a stream that it no longer writes, or it says that it holds "
    "nothing. If its disk is still there, put it back: it sends what it has, or declares what it has not."
)


def advice(cell: Cell, device: Device) -> list[str]:
    """What matters most first; nothing to do is said too."""
    found = [
        *_unexplained(cell, device),
        *_unknown(cell),
        *_in_flight(cell, device),
        *_lost(cell),
    ]
    if cell.state == "silent":
        found.append(
            "Nobody has heard of the device since before this hour. What it measures meanwhile it keeps on its own disk "
            "and sends when it is back: look at its power, its network and its password."
        )
    return found or ["Nothing to do."]


def _unexplained(cell: Cell, device: Device) -> list[str]:
    if not cell.unexplained:
        return []
    if device.state == "online":
        return [_NOT_CLAIMED]
    return [_NOT_THERE]


def _unknown(cell: Cell) -> list[str]:
    if cell.state != "unknown":
        return []
    if cell.in_cloud is None and cell.in_edge:
        return [
            "These samples are safe in the edge database. Whether the cloud has them too is told when it answers again."
        ]
    return ["A service could not be asked. Nothing is lost by that: look again when it answers (page Health)."]


def _in_flight(cell: Cell, device: Device) -> list[str]:
    found: list[str] = []
    if "dead_letters" in cell.places:
        found.append("The cloud refused events of this hour: look at why, and redrive them (page Dead letters).")
    if "outbox" in cell.places:
        found.append("The edge sends it by itself as soon as the cloud takes it: page Sync shows how long that takes.")
    if "bus" in cell.places:
        found.append(
            "The cloud has accepted it and has not stored it yet: that takes a moment, or the message lies in a dead letter "
            "queue of RabbitMQ (page Dead letters)."
        )
    if cell.on_node and device.state != "online":
        found.append("The device is not online: it sends what it holds when it is back.")
    elif cell.on_node:
        found.append("The device sends it by itself; replay runs beside what it measures now.")
    return found


def _lost(cell: Cell) -> list[str]:
    return ["What is declared lost will not come: page Losses says why."] if cell.lost else []
