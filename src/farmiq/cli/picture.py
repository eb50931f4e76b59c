"""The path of a sample as lines of text: one hop a line, in the order in which a sample passes them."""

from collections.abc import Sequence

from farmiq.cli.hops import Hop

# What each line shows, in this order. Everything else that a hop counts is in `farmiq status --json`.
SHOWN = {
    "node-forwarder": (
        "last_captured_seq",
        "last_published_seq",
        "last_acked_seq",
        "dropped_count",
        "figures_age_seconds",
    ),
    "edge-ingress-gateway": ("messages_received", "samples_stored", "duplicates", "rejected"),
    "edge-telemetry-timeseries": ("samples_stored", "samples_lost", "streams"),
    "edge-sync-forwarder": ("pending_count", "claimed_count", "dlq_count", "oldest_pending_age_seconds"),
    "cloud-ingestion": ("accepted", "duplicates", "rejected"),
    "cloud-telemetry-service": ("samples_stored", "samples_lost", "streams"),
}

# The node counts by sequence: the highest number is how many there were, as they start at one and have no gaps.
WORDS = {"last_captured_seq": "captured", "last_published_seq": "published", "last_acked_seq": "acked by the edge"}


def draw(hops: Sequence[Hop]) -> list[str]:
    width = max((len(hop.name) for hop in hops), default=0)
    return [f"{'→' if place else ' '} {hop.name:<{width}}  {_told(hop)}" for place, hop in enumerate(hops)]


def phrase(name: str, value: float) -> str:
    """`samples_stored`, 1240 is "1,240 samples stored"; units come last in our names and so behind the number."""
    words = name.rpartition(".")[2]
    if words.endswith("_seconds"):
        return f"{words.removesuffix('_seconds').replace('_', ' ')} {value:.1f} s"
    if words in WORDS:
        return f"{value:,} {WORDS[words]}"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return f"{shown} {words.removesuffix('_count').replace('_', ' ')}"


def _told(hop: Hop) -> str:
    if hop.problem is not None:
        return f"✗ {hop.problem}"
    known = {name.rpartition(".")[2]: value for name, value in hop.counts.items()}
    chosen = {name: known[name] for name in SHOWN.get(hop.name, ()) if name in known} or dict(hop.counts)
    return " · ".join(phrase(name, value) for name, value in chosen.items()) or "counts nothing yet"
