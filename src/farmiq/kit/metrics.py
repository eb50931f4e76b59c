"""Prometheus metrics, one registry a service, so that several services in one process keep their own `/metrics`."""

from prometheus_client import CollectorRegistry, Gauge, Info
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from farmiq import __version__

CONTENT_TYPE = CONTENT_TYPE_LATEST


def new_registry(service: str) -> CollectorRegistry:
    registry = CollectorRegistry()
    Info("farmiq_build", "What runs here.", registry=registry).info({"service": service, "version": __version__})
    return registry


def sampled_gauge(registry: CollectorRegistry) -> Gauge:
    """Set whenever the figures that are looked up now and then were looked up: an old one says that they are old too."""
    return Gauge(
        "farmiq_figures_sampled_timestamp_seconds",
        "When the sampled figures here were last measured.",
        registry=registry,
    )


def render(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)
