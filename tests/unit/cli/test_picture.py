import pytest

from farmiq.cli.hops import ROUTES, Hop
from farmiq.cli.picture import SHOWN, draw, phrase


def test_one_line_a_hop_with_an_arrow_from_the_one_before() -> None:
    lines = draw(
        [
            Hop(
                "node-forwarder",
                {"last_captured_seq": 1240, "last_published_seq": 1240, "last_acked_seq": 1238, "spool_bytes": 9},
            ),
            Hop("edge-ingress-gateway", problem="does not listen"),
            Hop("cloud-telemetry-service", {"samples_stored": 1200, "samples_lost": 0, "streams": 1}),
        ]
    )
    assert lines == [
        "  node-forwarder           1,240 captured · 1,240 published · 1,238 acked by the edge",
        "→ edge-ingress-gateway     ✗ does not listen",
        "→ cloud-telemetry-service  1,200 samples stored · 0 samples lost · 1 streams",
    ]


def test_keys_that_are_missing_or_nested_are_no_reason_to_fail() -> None:
    assert draw([Hop("edge-sync-forwarder", {"outbox.pending_count": 3})]) == ["  edge-sync-forwarder  3 pending"]


def test_a_hop_that_renamed_everything_still_shows_what_it_counts() -> None:
    assert draw([Hop("cloud-ingestion", {"taken": 5})]) == ["  cloud-ingestion  5 taken"]
    assert draw([Hop("cloud-ingestion")]) == ["  cloud-ingestion  counts nothing yet"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("samples_stored", 1240, "1,240 samples stored"),
        ("pending_count", 0, "0 pending"),
        ("oldest_pending_age_seconds", 0.25, "oldest pending age 0.2 s"),
        ("rate", 2.5, "2.5 rate"),
    ],
)
def test_a_count_reads_as_a_phrase(name: str, value: float, text: str) -> None:
    assert phrase(name, value) == text


def test_every_hop_that_is_asked_has_its_line() -> None:
    assert {hop for hop, _, _ in ROUTES} | {"node-forwarder"} == set(SHOWN)
