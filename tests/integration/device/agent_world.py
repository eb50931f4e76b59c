"""What the tests of the real agent have in common: what it has logged, and what it has left on the node's disk."""

import json
from collections.abc import Callable
from typing import Any

from farmiq.spool import Frame, Limits, Loss, Spool
from integration.device.node_world import Node
from support.service_process import ServiceProcess


def logged(process: ServiceProcess, event: str) -> list[dict[str, Any]]:
    return [line for line in process.log_lines() if line["message"] == event]


def has_logged(process: ServiceProcess, event: str, times: int = 1) -> Callable[[], bool]:
    return lambda: len(logged(process, event)) >= times


def on_disk(node: Node) -> tuple[list[Frame], list[Loss]]:
    """The forwarder must have ended."""
    spool = Spool(node.spool_folder, Limits())
    frames, losses = list(spool.reader().frames()), list(spool.losses.all())
    spool.close()
    return frames, losses


def status(node: Node) -> dict[str, Any]:
    """What the forwarder writes for people; empty before the first time."""
    path = node.spool_folder / "status.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}
