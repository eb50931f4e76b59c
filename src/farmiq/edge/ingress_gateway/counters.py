"""What this replica has done since it started: the metrics, and the figures of `GET /api/v1/ingress/stats`."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import get_args

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from farmiq.contracts.ack import OF_DEVICE
from farmiq.edge.disk import LEVELS, State
from farmiq.edge.ingress_gateway.handlers import Outcome
from farmiq.edge.ingress_gateway.limited import Limited
from farmiq.edge.ingress_gateway.quotas import Reason, Sender, Throttled
from farmiq.edge.ingress_gateway.screening import Refusal, Screened
from farmiq.kit.logging import get_logger
from farmiq.timeseries.delay import delay_histogram

REMARKED_MAX = 5
_STOPPED = {"low": "devices that sent more than their part keep their data", "full": "all devices keep their data"}

log = get_logger(__name__)


class Stats(msgspec.Struct):
    """Since this replica started."""

    messages_received: int = 0
    samples_stored: int = 0
    duplicates: int = 0
    rejected: int = 0
    acks_published: int = 0
    throttled: int = 0


class Counters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.stats = Stats()
        self._messages = Counter(
            "farmiq_ingress_messages", "Device messages committed, by what they were.", ["outcome"], registry=registry
        )
        for outcome in (
            "new",
            "duplicate",
            "rejected",
        ):  # a rise from nothing is only seen of what was shown as nothing
            self._messages.labels(outcome)
        self._samples = Counter(
            "farmiq_ingress_samples_stored", "Samples stored for the first time.", registry=registry
        )
        self._rejected = Counter("farmiq_ingress_rejected", "Messages kept as rejected.", ["reason"], registry=registry)
        self._throttled = Counter(
            "farmiq_ingress_throttled",
            "Device messages that were not taken now: neither stored nor acknowledged, so the device keeps them.",
            ["reason"],
            registry=registry,
        )
        for reason in get_args(Reason):
            self._throttled.labels(reason)
        self._disk = Gauge(
            "farmiq_edge_disk_floor",
            "Which devices the edge's disk has no room for: 0 none, 1 those that sent more than their part, 2 all.",
            registry=registry,
        )
        self.disk: Callable[[], State] = lambda: "free"
        self.limited = Limited()
        self._shut_out: frozenset[Sender] = frozenset()
        self._acks = Counter("farmiq_ingress_acks_published", "Acknowledgements sent to devices.", registry=registry)
        self._delay = delay_histogram("farmiq_edge_delay_seconds", "sensor to the edge's database", registry)

    def committed(self, messages: int, outcomes: Sequence[Outcome], committed_at: datetime) -> None:
        duplicates = sum(outcome.duplicates for outcome in outcomes)
        rejected = sum(len(outcome.refusals) for outcome in outcomes)
        self._messages.labels("new").inc(messages - duplicates - rejected)
        self._messages.labels("duplicate").inc(duplicates)
        self._messages.labels("rejected").inc(rejected)
        self.stats.messages_received += messages
        for outcome in outcomes:
            self._samples.inc(outcome.samples_stored)
            self.stats.samples_stored += outcome.samples_stored
            self.stats.duplicates += outcome.duplicates
            for lane, newest_at in outcome.newest:
                self._delay.labels(lane).observe(max(0.0, (committed_at - newest_at).total_seconds()))
            for message in outcome.traces_made:
                self._log_trace(message)
            for refusal in outcome.refusals:
                self._reject(refusal)

    def throttled(self, put_off: Sequence[Throttled], now: datetime) -> None:
        for one in put_off:
            if one.reason not in OF_DEVICE:  # these are counted as rejected
                self._throttled.labels(one.reason).inc(one.messages)
                self.stats.throttled += one.messages
        self.limited.note(put_off, now)
        shut_out = frozenset(one.sender for one in put_off if one.is_shut_out)
        for tenant_id, device_id in sorted(shut_out - self._shut_out):
            log.warning(
                "device_shut_out", tenant_id=tenant_id, device_id=device_id, reason="it sent more than twice its limit"
            )
        if put_off:
            self._shut_out = shut_out
        for one in put_off:
            if one.reason == "streams":
                log.warning(
                    "stream_not_opened", tenant_id=one.sender[0], device_id=one.sender[1], messages=one.messages
                )

    def remark(self, now: datetime) -> str | None:
        """What a person should see of who is limited, and why. None: nobody is."""
        limited = self.limited.of_last_hour(now)
        parts = [] if self.disk() == "free" else [f"the edge's disk is {self.disk()}: {_STOPPED[self.disk()]}"]
        for one in limited[:REMARKED_MAX]:
            until = f", shut out until {one.shut_until:%H:%M:%S} UTC" if one.shut_until else ""
            parts.append(f"{one.device_id} limited ({one.reason}): {one.messages} messages in the last hour{until}")
        if len(limited) > REMARKED_MAX:
            parts.append(f"{len(limited) - REMARKED_MAX} more devices limited")
        return "; ".join(parts) or None

    def watch_disk(self, state: Callable[[], State]) -> None:
        """Asked whenever somebody wants to know: the disk fills and empties also while no device sends anything."""
        self.disk = state
        self._disk.set_function(lambda: LEVELS[state()])

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
