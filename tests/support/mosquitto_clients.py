"""`mosquitto_pub` and `mosquitto_sub`, as people use them by hand."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

WAIT_SECONDS = 60


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install mosquitto-clients")
    return found


def pub(issued: dict[str, Any], topic: str, body: str, *options: str) -> None:
    """Returns when the broker has acknowledged, which it also does for a message that it then drops."""
    arguments = [*_login(issued), "-q", "1", "-t", topic, "-m", body, *options]
    subprocess.run([program("mosquitto_pub"), *arguments], check=True, timeout=30, capture_output=True)


@contextmanager
def sub(issued: dict[str, Any], *topics: str) -> Iterator["Subscription"]:
    filters = [word for topic in topics for word in ("-t", topic)]
    arguments = [*_login(issued), "-q", "1", "-v", "-d", "-W", str(WAIT_SECONDS), *filters]
    # Line by line, as on a terminal: into a pipe it would keep its words until it ends.
    command = [program("stdbuf"), "-oL", program("mosquitto_sub"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        subscription = Subscription(process)
        subscription.wait_until_granted()
        yield subscription
        process.kill()


class Subscription:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self._lines = process.stdout

    def wait_until_granted(self) -> None:
        while "received SUBACK" not in self._line():
            pass

    def hears(self) -> tuple[str, str]:
        """The next message: its topic and what it says."""
        while True:
            line = self._line()
            if line.startswith("iot/"):
                topic, _, text = line.rstrip("\n").partition(" ")
                return topic, text

    def _line(self) -> str:
        line = self._lines.readline()
        assert line, "mosquitto_sub ended, or heard nothing in time"
        return line


def _login(issued: dict[str, Any]) -> list[str]:
    parts = urlsplit(issued["mqtt_url"])
    user, password = issued["mqtt_username"], issued["mqtt_password"]
    return ["-h", parts.hostname or "", "-p", str(parts.port), "-i", user, "-u", user, "-P", password]
