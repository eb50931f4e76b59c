"""AMQP_URL names one RabbitMQ, or every node of a cluster: `amqp://user:password@one:5672,two:5672,three:5672/vhost`.

Whoever connects tries one node after the other, so that losing the node which it was connected to costs a moment and no more.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from yarl import URL

from farmiq.kit.errors import Fatal

DEFAULT_PORT = 5672
DEFAULT_TLS_PORT = 5671


class BadBusUrl(Fatal):
    """AMQP_URL does not say where RabbitMQ is: amqp://user:password@host:port/vhost, or several host:port with commas between."""

    code = "bad_bus_url"


def each_host(url: str) -> list[URL]:
    """A URL for each node, in the order given."""
    try:
        whole = urlsplit(url)
        credentials, at, hosts = whole.netloc.rpartition("@")
        urls = [URL(urlunsplit(whole._replace(netloc=f"{credentials}{at}{host.strip()}"))) for host in hosts.split(",")]
        are_complete = all(one.scheme in {"amqp", "amqps"} and one.host and one.port != 0 for one in urls)
    except ValueError:
        are_complete = False
    if not are_complete:
        # Not the URL itself: it has a password in it.
        raise BadBusUrl("AMQP_URL is not amqp://user:password@host:port/vhost")
    return urls


def said(hosts: Sequence[URL]) -> str:
    """Where they are, for a log line: without user and password."""
    return ", ".join(f"{one.host}:{one.port or default_port(one)}" for one in hosts)


def default_port(url: URL) -> int:
    return DEFAULT_TLS_PORT if url.scheme == "amqps" else DEFAULT_PORT
