"""How much was lost, by cause, as the ledger has it: for the metrics of both tiers."""

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter

from farmiq.contracts.station import LossReason
from farmiq.kit.postgres import Connection

CAUSES: Final = (
    "cap_reached",
    "aged_out",
    "damaged",
    "missing",
    "sync_failed",
    "not_kept",
    "not_captured",
    "discarded",
    "other",
)
"""What our own nodes say. Another device may say anything, and must not be able to make a series of each word."""
STATION_CAUSES: Final = (*get_args(LossReason), "discarded", "other")

_TOTALS: Final = "SELECT reason, sum(count)::bigint AS lost FROM stream_losses GROUP BY reason"
# Where a station can't tell how much it was, it was something.
_STATION_TOTALS: Final = "SELECT reason, sum(greatest(count, 1))::bigint AS lost FROM station_losses GROUP BY reason"


class Lost(Struct, frozen=True):
    """By reason: samples of streams, and events and pictures of weigh stations."""

    samples: Mapping[str, int]
    of_stations: Mapping[str, int]


class LossTotals:
    """Nothing is shown before the ledger was read: a total that rises from nothing to what it was would look like a loss."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._samples = _Totals(
            Counter(
                "farmiq_samples_lost",
                "Samples that were declared lost, by cause, since this tier was set up.",
                ["cause"],
                registry=registry,
            ),
            CAUSES,
        )
        self._of_stations = _Totals(
            Counter(
                "farmiq_station_lost",
                "Events and pictures that weigh stations gave up, by cause, since this tier was set up.",
                ["cause"],
                registry=registry,
            ),
            STATION_CAUSES,
        )

    def saw(self, lost: Lost) -> None:
        self._samples.saw(lost.samples)
        self._of_stations.saw(lost.of_stations)


class _Totals:
    def __init__(self, counter: Counter, causes: Sequence[str]) -> None:
        self._counter = counter
        self._causes = causes
        self._shown: dict[str, int] = {}

    def saw(self, totals: Mapping[str, int]) -> None:
        for cause, lost in by_cause(totals, self._causes).items():
            # A restored backup knows of less than before. That is no new loss, so the total stands still until it is passed.
            self._counter.labels(cause).inc(max(0, lost - self._shown.get(cause, 0)))
            self._shown[cause] = max(lost, self._shown.get(cause, 0))


def by_cause(totals: Mapping[str, int], causes: Sequence[str] = CAUSES) -> dict[str, int]:
    found = dict.fromkeys(causes, 0)
    for reason, lost in totals.items():
        found[reason if reason in found else "other"] += lost
    return found


async def loss_totals(connection: Connection) -> Lost:
    """The ledgers have a row for each loss, not for each sample."""
    samples = {row["reason"]: row["lost"] for row in await connection.fetch(_TOTALS)}
    return Lost(samples, {row["reason"]: row["lost"] for row in await connection.fetch(_STATION_TOTALS)})


async def sample_losses(connection: Connection, totals: LossTotals) -> None:
    totals.saw(await loss_totals(connection))
