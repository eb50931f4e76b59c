"""What this replica has done since it started: the metrics, and the figures of `GET /api/v1/ingress/stats`."""

from collections.abc import Sequence

import msgspec
from prometheus_client import CollectorRegistry, Counter

from farmiq.edge.ingress_gateway.handlers import Outcome
from farmiq.edge.ingress_gateway.screening import Refusal, Screened
from farmiq.kit.logging import get_logger

log = get_logger(__name__)


class Stats(msgspec.Struct):
    """Since this replica started."""

    messages_received: int = 0
    samples_stored: int = 0
    duplicates: int = 0
    rejected: int = 0
    acks_published: int = 0


class Counters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.stats = Stats()
        self._messages = Counter("ingress_messages_received", "Device messages committed.", registry=registry)
        self._samples = Counter("ingress_samples_stored", "Samples stored for the first time.", registry=registry)
        self._duplicates = Counter("ingress_duplicates", "Messages that had been stored before.", registry=registry)
        self._rejected = Counter("ingress_rejected", "Messages kept as rejected.", ["reason"], registry=registry)
        self._acks = Counter("ingress_acks_published", "Acknowledgements sent to devices.", registry=registry)

    def committed(self, messages: int, outcomes: Sequence[Outcome]) -> None:
        self._messages.inc(messages)
        self.stats.messages_received += messages
        for outcome in outcomes:
            self._samples.inc(outcome.samples_stored)
            self._duplicates.inc(outcome.duplicates)
            self.stats.samples_stored += outcome.samples_stored
            self.stats.duplicates += outcome.duplicates
            for message in outcome.traces_made:
                self._log_trace(message)
            for refusal in outcome.refusals:
                self._reject(refusal)

    def _reject(self, refusal: Refusal) -> None:
        self._rejected.labels(refusal.code).inc()
        self.stats.rejected += 1
        log.warning(
            "message_rejected", reason=refusal.code, detail=refusal.detail, tenant_id=refusal.tenant_id,
            device_id=refusal.device_id, event_id=refusal.event_id, trace_id=refusal.trace_id,
        )  # fmt: skip

    @staticmethod
    def _log_trace(message: Screened) -> None:
        log.info(
            "trace_id_made", trace_id=message.trace_id, tenant_id=message.origin.tenant_id,
            device_id=message.origin.device_id, event_id=message.event_id,
        )  # fmt: skip

    def acknowledged(self) -> None:
        self._acks.inc()
        self.stats.acks_published += 1
