from pathlib import Path

import pytest

from integration.device.node_world import Node
from support.mosquitto import Broker


@pytest.fixture
def node(tmp_path: Path, run_folder: Path) -> Node:
    """A node whose broker is away."""
    return Node(tmp_path, run_folder)


@pytest.fixture
def connected_node(node: Node, mosquitto: Broker) -> Node:
    node.mqtt_url = mosquitto.url("node-1")
    return node
