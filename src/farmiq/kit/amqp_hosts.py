"""AMQP_URL names one RabbitMQ, or every node of a cluster: `amqp://user:password@one:5672,two:5672,three:5672/vhost`.

Whoever connects tries one node after the other, so that losing the node which it was connected to costs a moment and no more.
"""

import re
from collections.abc import Sequence
from typing import Final

from yarl import URL

from farmiq.kit.errors import Fatal

DEFAULT_PORT = 5672
DEFAULT_TLS_PORT = 5671
# Not with urlsplit: with the security fixes of 2023 and later it refuses an address in brackets beside another one.
_PARTS: Final = re.compile(
    r"(?P<before>amqps?://(?:[^/?#]*@)?)(?P<hosts>[^/?#@]+)(?P<after>.*)", re.DOTALL | re.IGNORECASE
)


class BadBusUrl(Fatal):
    """AMQP_URL does not say where RabbitMQ is: amqp://user:password@host:port/vhost, or several host:port with commas between."""

    code = "bad_bus_url"


def each_host(url: str) -> list[URL]:
    """A URL for each node, in the order given."""
    parts = _PARTS.fullmatch(url)
    try:
        urls = (
            [URL(f"{parts['before']}{host.strip()}{parts['after']}") for host in parts["hosts"].split(",")]
            if parts
            else []
        )
    except ValueError:
        urls = []
    if not urls or not all(one.host and one.port != 0 for one in urls):
        # Not the URL itself: it has a password in it.
        raise BadBusUrl("AMQP_URL is not amqp://user:password@host:port/vhost")
    return urls


def said(hosts: Sequence[URL]) -> str:
    """Where they are, for a log line: without user and password."""
    return ", ".join(f"{one.host}:{one.port or default_port(one)}" for one in hosts)


def default_port(url: URL) -> int:
    return DEFAULT_TLS_PORT if url.scheme == "amqps" else DEFAULT_PORT
