"""How much was lost, by cause, as the ledger has it: for the metrics of both tiers."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from farmiq.kit.postgres import Connection

CAUSES: Final = ("cap_reached", "aged_out", "damaged", "missing", "sync_failed", "not_kept", "not_captured", "other")
"""What our own nodes say. Another device may say anything, and must not be able to make a series of each word."""

_TOTALS: Final = "SELECT reason, sum(count)::bigint AS samples FROM stream_losses GROUP BY reason"


class LossTotals:
    """Nothing is shown before the ledger was read: a total that rises from nothing to what it was would look like a loss."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lost = Counter(
            "farmiq_samples_lost",
            "Samples that were declared lost, by cause, since this tier was set up.",
            ["cause"],
            registry=registry,
        )
        self._shown: dict[str, int] = {}

    def saw(self, totals: Mapping[str, int]) -> None:
        for cause, samples in by_cause(totals).items():
            # A restored backup knows of less than before. That is no new loss, so the total stands still until it is passed.
            self._lost.labels(cause).inc(max(0, samples - self._shown.get(cause, 0)))
            self._shown[cause] = max(samples, self._shown.get(cause, 0))


def by_cause(totals: Mapping[str, int]) -> dict[str, int]:
    found = dict.fromkeys(CAUSES, 0)
    for reason, samples in totals.items():
        found[reason if reason in found else "other"] += samples
    return found


async def loss_totals(connection: Connection) -> dict[str, int]:
    """The ledger has a row for each loss, not for each sample."""
    return {row["reason"]: row["samples"] for row in await connection.fetch(_TOTALS)}


async def sample_losses(connection: Connection, totals: LossTotals) -> None:
    totals.saw(await loss_totals(connection))
