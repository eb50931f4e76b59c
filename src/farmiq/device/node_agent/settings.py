from typing import Annotated

from msgspec import Meta

from farmiq.kit.settings import Id, Settings


class AgentSettings(Settings, frozen=True, kw_only=True):
    device_id: Id
    """Who this node is."""
    node_forwarder_socket: str
    """The Unix socket on which node-forwarder takes samples."""
    # A TOML file that describes the sensors. Unset: a simulated barn.
    node_agent_sensors: str | None = None
    # For the devices that the file gives no interval of their own.
    sample_interval_ms: Annotated[int, Meta(ge=10, le=3_600_000)] = 1000
    # How many samples wait in memory for a forwarder that is away; beyond that the oldest are declared lost.
    node_agent_backlog_samples: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
