import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from farmiq.edge.media_store.handlers import Settled
from farmiq.edge.media_store.picture import Picture
from farmiq.kit.logging import get_logger

log = get_logger(__name__)


class Counters:
    """What this replica has done since it started, and how many pictures are in each state that is not the good one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.presigned = Counter(
            "farmiq_media_uploads_presigned", "Upload URLs handed out.", ["way"], registry=registry
        )
        self.throttled = Counter(
            "farmiq_media_presigns_throttled", "Requests for URLs that came too fast.", registry=registry
        )
        self.uploaded_bytes = Counter(
            "farmiq_media_uploaded_bytes", "Bytes that came through this service.", registry=registry
        )
        self.failed = Counter(
            "farmiq_media_inspections_failed", "Looks that ended in an error of ours.", registry=registry
        )
        self._stored = Counter("farmiq_media_stored", "Pictures verified and stored.", registry=registry)
        self._stored_bytes = Counter("farmiq_media_stored_bytes", "Bytes of these pictures.", registry=registry)
        self._refused = Counter(
            "farmiq_media_refused", "Pictures refused after a look at them.", ["reason"], registry=registry
        )
        self._missing = Counter("farmiq_media_missing", "Pictures announced that never came.", registry=registry)
        self._expired = Counter("farmiq_media_uploads_expired", "Upload URLs that nobody used.", registry=registry)
        self._seconds = Histogram(
            "farmiq_media_inspection_seconds", "Reading a picture back and decoding it.", registry=registry
        )
        self._states = Gauge(
            "farmiq_media_pictures", "Pictures that are not stored, by state.", ["state"], registry=registry
        )

    @contextmanager
    def inspected(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._seconds.observe(time.monotonic() - began)

    def settled(self, picture: Picture, settled: Settled) -> None:
        """By the replica whose commit it was, and by no other."""
        facts = {
            "media_id": str(picture.media_id),
            "device_id": picture.device_id,
            "picture_trace_id": picture.trace_id,
        }
        match settled.outcome:
            case "stored":
                self._stored.inc()
                self._stored_bytes.inc(settled.size_bytes)
                log.info("picture_stored", **facts)
            case "refused":
                assert settled.unfit is not None  # noqa: S101 - nothing is refused without a reason
                self._refused.labels(settled.unfit.code).inc()
                log.warning("picture_refused", reason=settled.unfit.code, detail=settled.unfit.detail, **facts)
            case "missing":
                self._missing.inc()
                log.error("picture_given_up", object_key=picture.object_key, **facts)
            case "forgotten":
                self._expired.inc()
                log.info("upload_expired", **facts)

    def saw(self, states: dict[str, int]) -> None:
        for state, count in states.items():
            self._states.labels(state).set(count)
