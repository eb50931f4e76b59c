from datetime import UTC, datetime, timedelta

from farmiq.console.overview.services import CHECKS, meaning_of
from farmiq.console.service_health import Heard, Ready, Since, judge, summary, versions
from farmiq.contracts.services import SERVICES

NOW = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
READY = Heard(Ready("ready", {"database": "ok"}), "0.1.0")
UNREADY = Heard(Ready("not_ready", {"database": "ConnectionRefusedError: no", "broker": "ok"}), "0.1.0")
AWAY = Heard(problem="cloud-ingestion does not answer: connection refused")


def test_a_service_that_is_ready() -> None:
    found = judge("edge-ingress-gateway", "http://127.0.0.1:5103", READY, None)
    assert (found.kind, found.word, found.version, found.command, found.tier) == ("good", "ready", "0.1.0", "", "edge")
    assert [check.is_ok for check in found.checks] == [True]
    assert found.api_docs == "http://127.0.0.1:5103/api-docs"


def test_what_a_ready_service_remarks_is_shown() -> None:
    remarked = Heard(Ready("ready", {"database": "ok"}, {"canary": "9 of the last 20 rounds were lost"}), "0.1.0")
    found = judge("edge-ingress-gateway", "http://127.0.0.1:5103", remarked, None)
    assert (found.kind, found.meaning) == ("good", "9 of the last 20 rounds were lost")


def test_a_check_that_fails_is_shown_with_what_it_means() -> None:
    found = judge("edge-ingress-gateway", "http://127.0.0.1:5103", UNREADY, NOW)
    assert (found.kind, found.word, found.since) == ("warn", "not ready", NOW)
    assert [(check.name, check.is_ok) for check in found.checks] == [("database", False), ("broker", True)]
    assert found.meaning == CHECKS["database"]


def test_a_service_that_is_away_says_what_waits_meanwhile_and_what_helps() -> None:
    found = judge("cloud-ingestion", "http://127.0.0.1:5201", AWAY, NOW)
    assert (found.kind, found.word, found.checks) == ("bad", "does not answer", ())
    assert found.meaning.startswith("The edges keep everything and try again.")
    assert found.command == "farmiq logs cloud-ingestion"


def test_since_is_the_first_of_many_looks_and_is_forgotten_when_it_is_over() -> None:
    since = Since()
    assert since.look({"a": READY}, NOW) == {}
    assert since.look({"a": AWAY}, NOW) == {"a": NOW}
    assert since.look({"a": UNREADY}, NOW + timedelta(seconds=9)) == {"a": NOW}
    assert since.look({"a": READY}, NOW + timedelta(seconds=10)) == {}
    assert since.look({"a": AWAY}, NOW + timedelta(seconds=11)) == {"a": NOW + timedelta(seconds=11)}


def test_all_of_them_in_one_sentence() -> None:
    ready = judge("cloud-media-store", "", READY, None)
    unready = judge("edge-ingress-gateway", "", UNREADY, NOW)
    away = judge("cloud-ingestion", "", AWAY, NOW)
    assert summary([ready, ready]) == ("good", "All 2 services are ready.")
    assert summary([ready, unready]) == ("warn", "edge-ingress-gateway is not ready.")
    assert summary([away, unready]) == ("bad", "cloud-ingestion does not answer. edge-ingress-gateway is not ready.")
    assert summary([]) == ("none", "This console is told of no service.")
    assert versions([ready, away]) == {"0.1.0"}


def test_every_service_with_a_port_has_words_for_its_absence() -> None:
    assert [service.name for service in SERVICES if service.port and not meaning_of(service.name).away] == []
