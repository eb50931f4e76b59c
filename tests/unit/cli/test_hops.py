import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from farmiq.cli import hops
from farmiq.cli.hops import Question, ask, ask_all, counts_in, questions

ANSWERS = {
    "/good": (200, b'{"samples_stored": 3, "outbox": {"pending": 2, "name": "x"}, "is_open": true}'),
    "/broken": (200, b'{"samples_stored": '),
    "/list": (200, b"[1, 2]"),
    "/failing": (503, b"{}"),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = ANSWERS[self.path]
        if self.path == "/good" and self.headers.get("Authorization") != "Bearer t0ken":
            status, body = 401, b"{}"
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The test's output is no place for access logs."""


@pytest.fixture
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def silent_service() -> Iterator[str]:
    """Takes connections and never answers, like a process that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/good"


def test_every_number_is_counted_by_its_path_and_nothing_else() -> None:
    answer = {"stored": 3, "outbox": {"pending": 2, "age": 0.5, "name": "x"}, "is_open": True, "at": None, "gaps": [1]}
    assert counts_in(answer) == {"stored": 3, "outbox.pending": 2, "outbox.age": 0.5}


def test_a_hop_that_answers_shows_its_counts(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    hop = ask(Question("cloud-telemetry-service", f"{service}/good", "t0ken"))
    assert hop.problem is None
    assert hop.counts == {"samples_stored": 3, "outbox.pending": 2}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/good", "answered 401 Unauthorized"),
        ("/failing", "answered 503 Service Unavailable"),
        ("/broken", "gave an answer that can't be read"),
        ("/list", "gave an answer that can't be read: the answer is not a JSON object"),
    ],
)
def test_a_hop_that_fails_says_how(service: str, path: str, problem: str) -> None:
    hop = ask(Question("cloud-ingestion", service + path))
    assert hop.counts == {}
    assert (hop.problem or "").startswith(problem)


def test_a_hop_that_is_gone_is_shown_beside_those_that_answer(
    service: str, silent_service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hops, "TIMEOUT_SECONDS", 0.2)
    (tmp_path / "status.json").write_text(json.dumps({"captured": 7}))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/good"
        answers = ask_all(
            [
                Question("a", str(tmp_path / "status.json")),
                Question("b", str(tmp_path / "nothing.json")),
                Question("c", closed),
                Question("d", silent_service),
                Question("e", None),
                Question("f", f"{service}/good", "t0ken"),
            ]
        )
    assert [hop.name for hop in answers] == ["a", "b", "c", "d", "e", "f"]
    assert answers[0].counts["captured"] == 7
    assert answers[0].counts["figures_age_seconds"] >= 0
    assert [hop.problem for hop in answers[1:5]] == [
        "has written no counts yet",
        "does not listen",
        "gave no answer within 0.2 s",
        "the stack gives it no address",
    ]
    assert answers[5].problem is None


def test_the_path_of_a_sample_is_asked_in_its_order(tmp_path: Path) -> None:
    asked = questions({"EDGE_SYNC_FORWARDER_URL": "http://127.0.0.1:5108/", "ADMIN_TOKEN": "t0ken"}, tmp_path)
    assert [question.hop for question in asked] == [
        "node-forwarder",
        "edge-ingress-gateway",
        "edge-telemetry-timeseries",
        "edge-sync-forwarder",
        "cloud-ingestion",
        "cloud-telemetry-service",
    ]
    assert asked[0].place == str(tmp_path / "status.json")
    assert asked[3].place == "http://127.0.0.1:5108/api/v1/sync/state"
    assert asked[4].place is None
    assert "t0ken" not in repr(asked)
