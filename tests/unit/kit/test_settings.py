"""Settings from the environment: every wrong variable named at once, no secret shown."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from farmiq.kit.settings import BadSettings, HttpSettings, Id, Port, Positive, Secret, Settings, load

CANARY = "hunter2"


class Example(Settings, frozen=True, kw_only=True):
    device_id: Id
    database_url: Secret
    port: Port = 5103
    outbox_batch_size: Positive = 100
    ratio: float = 0.5
    lane: Literal["live", "replay"] = "live"
    is_admin_enabled: bool = False
    pin: Annotated[str, Meta(min_length=4, extra={"secret": True})] | None = None
    peers: tuple[str, ...] = ()


GOOD = {"DEVICE_ID": "node-1", "DATABASE_URL": f"postgresql://user:{CANARY}@host/db"}


def test_values_are_read_under_their_names_in_capitals_and_converted() -> None:
    settings = load(
        Example,
        GOOD
        | {
            "PORT": "0",
            "OUTBOX_BATCH_SIZE": "7",
            "RATIO": "0.25",
            "LANE": "replay",
            "IS_ADMIN_ENABLED": "true",
            "PEERS": "a, b,,c ",
            "SOMETHING_ELSE": "ignored",
        },
    )

    assert (settings.device_id, settings.port, settings.outbox_batch_size) == ("node-1", 0, 7)
    assert (settings.ratio, settings.lane, settings.is_admin_enabled) == (0.25, "replay", True)
    assert settings.peers == ("a", "b", "c")
    assert settings.database_url == GOOD["DATABASE_URL"]


def test_every_wrong_variable_is_named_at_once_with_what_is_allowed() -> None:
    with pytest.raises(BadSettings) as refusal:
        load(Example, {"DEVICE_ID": "no spaces", "PORT": "70000", "OUTBOX_BATCH_SIZE": "many", "LANE": "fast"})

    message = str(refusal.value)
    for name in ("DEVICE_ID", "DATABASE_URL", "PORT", "OUTBOX_BATCH_SIZE", "LANE"):
        assert name in message
    assert "DATABASE_URL is missing" in message
    assert "PORT is '70000'" in message
    assert "65535" in message


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_variable_counts_as_not_given(empty: str | None) -> None:
    environ = {**GOOD, "DEVICE_ID": empty or ""} if empty is not None else {"DATABASE_URL": "x"}

    with pytest.raises(BadSettings, match="DEVICE_ID is missing: a FarmIQ id"):
        load(Example, environ)
    assert load(Example, {**GOOD, "PORT": ""}).port == 5103


def test_a_default_of_the_caller_stands_in_for_a_missing_variable() -> None:
    assert load(HttpSettings, {}, port=5201).port == 5201
    assert load(HttpSettings, {"PORT": "8080"}, port=5201).port == 8080


def test_secrets_show_neither_in_the_text_form_nor_in_errors() -> None:
    settings = load(Example, {**GOOD, "PIN": f"{CANARY}-pin"})
    assert CANARY not in repr(settings) + str(settings)
    assert "device_id='node-1'" in repr(settings)
    assert "database_url=***" in repr(settings)

    with pytest.raises(BadSettings, match="PIN has a value that is not allowed") as refusal:
        load(Example, {**GOOD, "PIN": "abc"})
    assert "abc" not in str(refusal.value)


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"{GOOD['DATABASE_URL']}\n")

    settings = load(Example, {"DEVICE_ID": "node-1", "DATABASE_URL_FILE": str(tmp_path / "url")})

    assert settings.database_url == GOOD["DATABASE_URL"]


def test_a_variable_given_directly_wins_over_its_file(tmp_path: Path) -> None:
    settings = load(Example, {**GOOD, "DATABASE_URL_FILE": str(tmp_path / "missing")})

    assert settings.database_url == GOOD["DATABASE_URL"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"\n", "it is empty"),
    ],
)
def test_a_file_that_holds_no_value_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "url"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(BadSettings, match=f"DATABASE_URL .*DATABASE_URL_FILE={path}.*{reason}"):
        load(Example, {"DEVICE_ID": "node-1", "DATABASE_URL_FILE": str(path)})
