"""MQTT as devices and people speak it, with nothing of ours in between."""

import queue
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties

from support.waiting import wait_for

Connect = Callable[..., "Client"]


class Client:
    """A paho client that keeps what it hears."""

    def __init__(self, url: str, client_id: str = "", clean: bool = True, will: str | None = None) -> None:
        self.heard: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.disconnects = 0
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean)
        self.paho.on_message = lambda _client, _data, message: self.heard.put((message.topic, bytes(message.payload)))
        self.paho.on_disconnect = self._count_disconnect
        if will:
            self.paho.will_set(will, b"will", qos=1)
        parts = urlsplit(url)
        self.paho.username_pw_set(parts.username, parts.password)
        self.paho.connect("127.0.0.1", parts.port or 0)
        self.paho.loop_start()
        wait_for(self.paho.is_connected, what="the connection")

    def subscribe(self, topic: str) -> bool:
        """Whether the broker granted it."""
        granted: queue.Queue[bool] = queue.Queue()
        self.paho.on_subscribe = lambda _client, _data, _mid, codes, _properties: granted.put(not codes[0].is_failure)
        self.paho.subscribe(topic, qos=1)
        return granted.get(timeout=10)

    def publish(self, topic: str, payload: bytes = b"x", retain: bool = False) -> None:
        """Returns when the broker has acknowledged, which it also does for a message that it then drops."""
        self.paho.publish(topic, payload, qos=1, retain=retain).wait_for_publish(10)

    def hears(self) -> tuple[str, bytes]:
        return self.heard.get(timeout=10)

    def _count_disconnect(
        self, _client: paho.Client, _data: object, _flags: object, _code: object, _properties: Properties | None
    ) -> None:
        self.disconnects += 1

    def close(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def vanish(self) -> None:
        """Breaks the connection without a goodbye, so that the broker sends the will."""
        sock = self.paho.socket()
        assert sock is not None
        self.paho.loop_stop()
        sock.close()


@pytest.fixture
def connect() -> Iterator[Connect]:
    clients: list[Client] = []

    def make(url: str, client_id: str = "", clean: bool = True, will: str | None = None) -> Client:
        clients.append(Client(url, client_id, clean, will))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
