"""What the metrics of this service show: the fleet, the losses and what waits for a person, sampled."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import inf

from prometheus_client import CollectorRegistry, Gauge

from farmiq.edge import alerts
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.telemetry_timeseries import store
from farmiq.edge.telemetry_timeseries.fleet import Fleet
from farmiq.kit.clock import Clock
from farmiq.kit.metrics import sampled_gauge
from farmiq.kit.postgres import Connection
from farmiq.timeseries.loss_totals import LossTotals, Lost, loss_totals


class Counters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._devices = Gauge("farmiq_devices", "Devices that may speak, by state.", ["state"], registry=registry)
        self._spool_bytes = Gauge("farmiq_spool_bytes", "What the devices' spools hold.", registry=registry)
        self._unacked = Gauge(
            "farmiq_spool_unacked_samples", "Samples that the devices hold and the edge does not.", registry=registry
        )
        self._oldest = Gauge(
            "farmiq_spool_oldest_sample_age_seconds", "Age of the oldest of these, of all devices.", registry=registry
        )
        self._runway = Gauge(
            "farmiq_spool_runway_seconds",
            "Until the first device that can't deliver has to drop samples; +Inf while all of them deliver.",
            registry=registry,
        )
        self._runway.set(inf)  # until the first look nobody is known to be short of room
        self._alerts = Gauge(
            "farmiq_ops_alerts_open", "What the edge has noted for a person, by kind.", ["kind"], registry=registry
        )
        self._kinds: set[str] = set()
        self._losses = LossTotals(registry)
        self._sampled_at = sampled_gauge(registry)

    def saw(self, fleet: Fleet, losses: Lost, open_alerts: Mapping[str, int], now: datetime) -> None:
        for state in ("online", "quiet", "idle", "never_heard"):
            self._devices.labels(state).set(getattr(fleet, state))
        self._spool_bytes.set(fleet.spool_bytes)
        self._unacked.set(fleet.unacked_samples)
        self._oldest.set(fleet.oldest_seconds)
        self._runway.set(fleet.runway_seconds)
        self._kinds |= open_alerts.keys()  # a kind that is gone is shown as none, not left at what it was
        for kind in self._kinds:
            self._alerts.labels(kind).set(open_alerts.get(kind, 0))
        self._losses.saw(losses)
        self._sampled_at.set(now.timestamp())


async def sample(connection: Connection, counters: Counters, clock: Clock, online_timeout: timedelta) -> None:
    registered = await devices.registered(connection)
    fleet = await store.fleet(connection, registered.revoked_ids, clock.now(), online_timeout)
    fleet.never_heard = max(0, registered.count - fleet.online - fleet.quiet - fleet.idle)
    counters.saw(fleet, await loss_totals(connection), await alerts.open_by_kind(connection), clock.now())
