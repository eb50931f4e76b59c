from datetime import UTC, datetime
from pathlib import Path

import pytest

from farmiq.cli.demo import healed_text
from farmiq.cli.demo_ledger import Ledger, LedgerFile
from farmiq.cli.demo_links import WORDS, How, LinkName, faults_of, require, told
from farmiq.cli.demo_steps import Healed, child_named
from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.cli.flow import Counted
from farmiq.cli.flow_show import Occasional
from farmiq.cli.terminal import own_name
from farmiq.stack.relay.faults import HEALTHY
from farmiq.stack.relay.protocol import RouteState
from farmiq.stack.state import ChildState

NAMES = ("node-agent", "node-forwarder", "edge-sync-forwarder", "cloud-ingestion", "postgres", "relay")


def child(name: str) -> ChildState:
    return ChildState(name=name, kind="service", state="healthy", since=datetime(2026, 11, 16, tzinfo=UTC), log="")


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("edge-sync-forwarder", "edge-sync-forwarder"),
        ("sync-forwarder", "edge-sync-forwarder"),
        ("agent", "node-agent"),
        ("ingestion", "cloud-ingestion"),
        ("relay", "relay"),
    ],
)
def test_a_service_is_found_by_its_name_or_by_last_words_that_only_it_has(wanted: str, name: str) -> None:
    assert child_named(wanted, [child(one) for one in NAMES]).name == name


@pytest.mark.parametrize(
    ("wanted", "fix"),
    [
        ("forwarder", "farmiq demo kill node-forwarder or farmiq demo kill edge-sync-forwarder"),
        ("edge-sync", "farmiq demo kill edge-sync-forwarder"),
        ("edge-sync-forwarde", "farmiq demo kill edge-sync-forwarder"),
        ("postgers", "farmiq demo kill postgres"),
        ("moon", "farmiq status"),
        ("", "farmiq status"),
    ],
)
def test_a_name_that_fits_several_or_none_kills_nothing_and_the_whole_name_is_suggested(wanted: str, fix: str) -> None:
    with pytest.raises(BadUsage, match="nothing was killed") as refused:
        child_named(wanted, [child(one) for one in NAMES])
    assert refused.value.fix == fix
    assert "cloud-ingestion" in refused.value.why


def test_every_link_can_be_broken_in_every_way_and_is_explained() -> None:
    assert [faults_of(how).names for how in How] == [["down"], ["timeout"], ["latency", "bandwidth"]]
    assert set(WORDS) == set(LinkName)
    assert told(LinkName.WAN, How.DOWN).startswith("The link between the edge and the cloud is cut")


def test_a_link_to_somebody_elses_server_is_not_broken() -> None:
    only_wan = [
        RouteState(
            name="wan", ports=[1], faults=HEALTHY, connections=0, accepted=0, turned_away=0, upstream_bytes=0,
            downstream_bytes=0,
        )
    ]  # fmt: skip
    require(LinkName.WAN, only_wan)
    with pytest.raises(CommandFailed, match="the link broker is not this farm's to break"):
        require(LinkName.BROKER, only_wan)


@pytest.mark.parametrize(
    ("healed", "text"),
    [
        (Healed(True, 8412, 8412, 0, 0, 37, 4.2), "captured 8,412 = stored 8,412, duplicates removed 37, lost 0"),
        (
            Healed(True, 8412, 8400, 12, 0, 1, 4.2),
            "captured 8,412 = stored 8,400 + declared lost 12, duplicates removed 1",
        ),
        (Healed(False, 8412, 8000, 0, 412, 0, 180.0), "After 180 s 412 of 8,412 samples are still on their way"),
        (
            Healed(False, 8412, 8000, 0, 412, 0, 180.0, "no response from the cloud in time, next try in 41 s"),
            (
                f"After 180 s 412 of 8,412 samples are still on their way. Nothing is lost. See: {own_name()} watch\n"
                "  why: no response from the cloud in time, next try in 41 s"
            ),
        ),
        (Healed(False, 8412, 8412, 0, 0, 0, 180.0), "After 180 s every sample has arrived (8,412), and other events"),
        (Healed(False, None, None, None, None, 0, 180.0), "After 180 s the cloud does not say what it has"),
    ],
)
def test_the_sum_is_said_in_one_sentence(healed: Healed, text: str) -> None:
    assert healed_text(healed).startswith(text)


def test_what_was_counted_is_kept_from_one_command_to_the_next(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path / "relay" / "demo.json")
    assert ledger.load() is None
    ledger.save({"cloud-ingestion": Counted(7, 3)}, 5)
    assert ledger.load() == Ledger({"cloud-ingestion": Counted(7, 3)}, 5)
    (tmp_path / "relay" / "demo.json").write_text("{")
    assert ledger.load() is None


def test_of_near_equal_lines_few_are_printed_and_each_of_a_new_kind() -> None:
    printed: list[str] = []
    show = Occasional(printed.append)
    for second in range(180):
        show(float(second), "TIMEOUT" if second == 100 else "", str(second))
    assert printed[:5] == ["0", "1", "2", "3", "4"]
    assert {"100", "101"} <= set(printed)
    assert len(printed) < 20
