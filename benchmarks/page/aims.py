"""What each result should reach. Results without an aim are there to be looked at."""

from dataclasses import dataclass

from harness import shown
from page.measured import Outcome


@dataclass(frozen=True, slots=True)
class Aim:
    number: float
    unit: str = ""  # none: it is about the ratio
    is_limit: bool = False  # at most, instead of at least
    word: str = ""  # the aim in one word, where there is one

    def in_words(self) -> str:
        said = (
            f"{'at most' if self.is_limit else 'at least'} {shown(self.number)}{f' {self.unit}' if self.unit else ''}"
        )
        return f"{self.word}: {said}" if self.word else said

    def reached(self, outcome: Outcome) -> float:
        """How far, with 1 for just so; more is better."""
        got = outcome.value if self.unit else outcome.ratio
        if self.is_limit:
            return self.number / got if got else float("inf")
        return got / self.number

    def is_met(self, outcome: Outcome) -> bool:
        return self.reached(outcome) >= 1


AIMS = {
    "spool_append": Aim(0.5),
    "spool_recover": Aim(100, "MB/s"),
    "socket_to_durable": Aim(50_000, "samples/s"),
    "forwarder_rss": Aim(80, "MB", is_limit=True),
    "forwarder_rss_replay": Aim(80, "MB", is_limit=True),
    "power_cut_spool": Aim(1, word="all"),
    "power_cut_killed_spool": Aim(1, word="all"),
    "ingest_drain": Aim(30_000, "samples/s"),
    "live_during_drain_p99": Aim(1, "s", is_limit=True),
    "outbox_drain": Aim(1.5),
    "outbox_drain_1m": Aim(0.8, word="flat"),
    "outbox_packs": Aim(100_000, "samples/s"),
    "outbox_packs_http": Aim(100_000, "samples/s"),
    "cloud_packs": Aim(0.3),
    "cloud_singles": Aim(5),
    "sensor_to_cloud_p50": Aim(0.5, "s", is_limit=True),
    "sensor_to_cloud_p99": Aim(2, "s", is_limit=True),
    "neighbour_ack_p99": Aim(3, is_limit=True),
    "media_upload": Aim(0.7),
    "upload_to_result_p95": Aim(2, "s", is_limit=True),
}
