"""What this replica has done since it started."""

from prometheus_client import CollectorRegistry, Counter

from farmiq.edge.weighvision_session.handlers import Looked


class Counters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._told = Counter("farmiq_weigh_sessions_told", "Ends of sessions told to the cloud.", registry=registry)
        self._incomplete = Counter(
            "farmiq_weigh_sessions_incomplete", "Sessions that became incomplete.", registry=registry
        )
        self._healed = Counter(
            "farmiq_weigh_sessions_healed", "Incomplete sessions that became whole.", registry=registry
        )

    def looked(self, looked: Looked) -> None:
        self._told.inc(looked.told)
        self._incomplete.inc(looked.incomplete)
        self._healed.inc(looked.healed)
