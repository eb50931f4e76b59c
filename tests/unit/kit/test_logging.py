"""Every line is one JSON object, and no secret gets into it."""

import contextlib
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from farmiq.kit import logging as log_lines
from farmiq.kit.settings import Secret, Settings

CANARY = "hunter2"


class Credentials(Settings, frozen=True, kw_only=True):
    user: str
    password: Secret


class Written:
    """A logger of a freshly configured process, and what it has written."""

    def __init__(self, stream: io.StringIO) -> None:
        self.log = log_lines.get_logger("farmiq.test")
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def line(self) -> dict[str, Any]:
        [text] = self.text.splitlines()
        line: dict[str, Any] = json.loads(text)
        return line


@pytest.fixture
def written() -> Iterator[Written]:
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = list(root.handlers), root.level
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        log_lines.configure("INFO")
    yield Written(stream)
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_event_is_one_json_object_with_time_level_and_context(written: Written) -> None:
    with structlog.contextvars.bound_contextvars(service="edge-test", trace_id="trace-1"):
        written.log.warning("batch_refused", samples=3, at=datetime(2026, 1, 1, tzinfo=UTC))

    line = written.line
    assert datetime.fromisoformat(line.pop("timestamp")).tzinfo is not None
    assert line == {
        "message": "batch_refused",
        "level": "warning",
        "service": "edge-test",
        "trace_id": "trace-1",
        "samples": 3,
        "at": "2026-01-01T00:00:00Z",
    }


def test_lines_of_libraries_have_the_same_form(written: Written) -> None:
    logging.getLogger("some.library").warning("cannot reach %s", f"amqp://user:{CANARY}@host/")

    line = written.line
    assert line["logger"] == "some.library"
    assert line["message"] == "cannot reach amqp://user:***@host/"


def test_an_exception_is_part_of_its_line(written: Written) -> None:
    try:
        raise ConnectionError(f"postgresql://user:{CANARY}@host/db is away")  # noqa: TRY301 - it is raised to be logged
    except ConnectionError:
        written.log.exception("request_failed")

    line = written.line
    assert "ConnectionError: postgresql://user:***@host/db is away" in line["exception"]
    assert "Traceback" in line["exception"]


def test_a_level_below_the_chosen_one_is_not_written(written: Written) -> None:
    written.log.debug("sample_spooled")
    assert written.text == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"password": CANARY},
        {"DATABASE_PASSWORD": CANARY},
        {"secret_key": CANARY.encode()},
        {"admin_token": CANARY},
        {"authorization": f"Bearer {CANARY}"},
        {"header": f"Authorization: Bearer {CANARY}"},
        {"url": f"mqtt://node-1:{CANARY}@broker:1883"},
        {"url": f"https://s3/bucket/key?X-Amz-Credential={CANARY}&X-Amz-Signature={CANARY}&x=1"},
        {"environ": {"S3_SECRET_KEY": CANARY, "AMQP_URL": f"amqp://user:{CANARY}@host"}},
        {"urls": [f"amqp://user:{CANARY}@host", {"token": CANARY}]},
        {"settings": Credentials(user="node-1", password=CANARY)},
        {"error": ValueError(f"amqp://user:{CANARY}@host")},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_secret_does_not_get_into_a_line(written: Written, fields: dict[str, Any]) -> None:
    written.log.info("service_started", **fields)

    text = written.text
    assert CANARY not in text
    assert "***" in text


def test_what_is_no_secret_stays_readable(written: Written) -> None:
    written.log.info(
        "batch_stored", url="http://host:8080/path?limit=3", mail="a@b", count=2, ratio=0.5, is_new=True, none=None
    )

    line = written.line
    assert line["url"] == "http://host:8080/path?limit=3"
    assert (line["mail"], line["count"], line["ratio"], line["is_new"], line["none"]) == ("a@b", 2, 0.5, True, None)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=10,
)


@given(value=anything)
def test_whatever_is_logged_becomes_one_line_of_json(value: Any) -> None:
    event = log_lines.mask_secrets(None, "info", {"message": "sample_spooled", "value": value})

    text = log_lines._render(None, "info", event)

    assert "\n" not in text
    assert json.loads(text)["message"] == "sample_spooled"


def test_a_device_can_log_without_any_web_stack() -> None:
    """What a node imports must not need what `farmiq[device]` does not install."""
    code = (
        "import sys, farmiq.kit.mqtt, farmiq.kit.lifecycle, farmiq.kit.settings, farmiq.kit.logging\n"
        "heavy = {'litestar', 'uvicorn', 'aiohttp', 'asyncpg', 'aiormq', 'boto3', 'sqlalchemy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
