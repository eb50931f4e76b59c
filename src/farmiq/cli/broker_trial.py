"""What a device may do at the broker beyond its own topics, tried with a device's login.

The SUBSCRIBE that joins the gateway's share group and the UNSUBSCRIBE that leaves it are written one behind the other: a message
of others is taken only if the broker handles it between the two. What is published goes to names that no device can have.
"""

import asyncio
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import asyncpg
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from farmiq.cli.checks import Check, Verdict, good
from farmiq.cli.device_edge import find_edge
from farmiq.contracts import topics
from farmiq.edge.ingress_gateway import devices, refusals
from farmiq.edge.ingress_gateway.broker_logins import hash_password, mqtt_url
from farmiq.edge.ingress_gateway.canary import TOPICS as CANARY_TOPICS
from farmiq.kit.clock import Clock
from farmiq.kit.errors import FarmiqError
from farmiq.kit.logging import mask
from farmiq.kit.mqtt import parse_url
from farmiq.kit.postgres import Connection
from farmiq.kit.settings import Secret, Settings, load
from farmiq.stack.device_logins import BrokerOfHome, apply_register
from farmiq.stack.errors import StackError

ANSWER_SECONDS: Final = 5.0
LISTEN_SECONDS: Final = 1.0
NOBODY: Final = "farmiq-doctor-other"
"""`farmiq-` is reserved: no device has this name, so nobody reads its acknowledgements."""
_GROUP: Final = "edge-ingress-gateway"
_READS: Final = ("#", f"iot/{NOBODY}/ack")
_WRITES: Final = (f"iot/{NOBODY}/ack", next(iter(CANARY_TOPICS)))
_FIX: Final = "docs/guides/devices.md#a-broker-of-your-own"
_NOT_TRIED: Final = Check(
    "broker: trial",
    Verdict.WARNING,
    "not tried what a device may do at a broker that is not ours: no login is given",
    "make a login with a device's rules there, and its URL in DOCTOR_MQTT_URL, or in a file that DOCTOR_MQTT_URL_FILE names",
)
_RECENT_HOURS: Final = 24
_TAKE_TURN: Final = "SELECT pg_advisory_lock($1)"


class _Given(Settings, frozen=True, kw_only=True):
    doctor_mqtt_url: Secret = ""


class TrialFailed(StackError):
    """The broker could not be tried."""


@dataclass
class Findings:
    joined: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    received: set[str] = field(default_factory=set)
    written: list[str] = field(default_factory=list)


def checks_of(findings: Findings) -> Iterator[Check]:
    """One line each, the worst first."""
    if findings.joined:
        found = "a device may join the gateway's share group, and takes part of everybody's messages (tried, and left at once)"
        yield Check("broker: share group", Verdict.FAILED, found, _FIX)
    else:
        yield good("broker: share group", "a device is denied to join the gateway's (tried)")
    if findings.received:
        found = f"a device reads what others send, for example {min(findings.received)[:80]}"
        yield Check("broker: subscriptions", Verdict.FAILED, found, _FIX)
    elif findings.read:
        found = (
            f"{', '.join(findings.read)} are granted to a device, though nothing of others came in {LISTEN_SECONDS:g} s"
        )
        yield Check("broker: subscriptions", Verdict.WARNING, found, _FIX)
    else:
        yield good("broker: subscriptions", "a device is denied # and the acknowledgements of others (tried)")
    if findings.written:
        found = f"a device may publish on topics of others: {', '.join(findings.written)}"
        yield Check("broker: publishing", Verdict.FAILED, found, _FIX)
    else:
        yield good("broker: publishing", "a device is denied to publish on topics of others (tried)")


def try_broker(mqtt_url: str) -> Findings:
    """With the login of a device that nothing else uses: a connection under it would be ended, and its session is."""
    address = parse_url(mqtt_url)
    if address.username is None:
        raise TrialFailed("the URL names no login", fix="mqtt://user:password@host:port, with the login of a device")
    trial = _Trial(address.username, address.password, ssl.create_default_context() if address.is_tls else None)
    try:
        trial.connect(address.host, address.port)
        return trial.run()
    except OSError as error:
        raise TrialFailed(f"the broker on {address.host}:{address.port} can't be reached: {error}") from error
    finally:
        trial.disconnect()


class _Trial:
    """One connection of MQTT 5, whose answers say what was denied: 3.1.1 acknowledges a publish that is dropped."""

    def __init__(self, user: str, password: str | None, tls: ssl.SSLContext | None) -> None:
        self._findings = Findings()
        self._connected: ReasonCode | None = None
        self._answers: dict[int, list[ReasonCode]] = {}
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=user, protocol=MQTTProtocolVersion.MQTTv5, reconnect_on_failure=False
        )
        client.username_pw_set(user, password)
        if tls is not None:
            client.tls_set_context(tls)
        client.on_connect = self._on_connect
        client.on_subscribe = client.on_unsubscribe = self._on_answers
        client.on_publish = self._on_publish
        client.on_message = self._on_message

    def connect(self, host: str, port: int) -> None:
        self._client.connect(host, port, clean_start=True)
        line: Any = self._client.socket()  # paho's own type names only what paho itself calls
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._until(lambda: self._connected is not None, "an answer to CONNECT")
        if self._connected is not None and self._connected.is_failure:
            raise TrialFailed(f"the broker refused the login: {self._connected}")

    def disconnect(self) -> None:
        self._client.disconnect()

    def run(self) -> Findings:
        found = self._findings
        found.joined = [name for name in topics.shared(_GROUP) if self._joins(name)]
        found.read = [name for name in _READS if self._is_allowed(self._client.subscribe(name, 0))]
        found.written = [name for name in _WRITES if self._is_allowed(self._publish(name))]
        if found.read:
            ends_at = time.monotonic() + LISTEN_SECONDS
            self._until(lambda: bool(found.received) or time.monotonic() > ends_at, "messages of others")
            for name in found.read:
                self._answer(self._client.unsubscribe(name))
        return found

    def _joins(self, name: str) -> bool:
        joining = self._client.subscribe(name, 1)
        leaving = self._client.unsubscribe(name)
        is_allowed = self._is_allowed(joining)
        self._answer(leaving)
        return is_allowed

    def _publish(self, name: str) -> tuple[Any, int | None]:
        sent = self._client.publish(name, b"farmiq doctor", 1)
        return sent.rc, sent.mid

    def _is_allowed(self, sent: tuple[Any, int | None]) -> bool:
        return not any(code.is_failure for code in self._answer(sent))

    def _answer(self, sent: tuple[Any, int | None]) -> list[ReasonCode]:
        mid = sent[1]
        assert mid is not None  # noqa: S101 - paho has none only without a connection
        self._until(lambda: mid in self._answers, "an answer")
        return self._answers.pop(mid)

    def _until(self, is_true: Callable[[], bool], what: str) -> None:
        ends_at = time.monotonic() + ANSWER_SECONDS
        while not is_true():
            if time.monotonic() > ends_at:
                raise TrialFailed(f"the broker gave no sign of {what} within {ANSWER_SECONDS:g} s")
            status = self._client.loop(0.05)
            if status != paho.MQTT_ERR_SUCCESS and not is_true():
                raise TrialFailed(f"the broker ended the connection: {paho.error_string(status)}")

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, code: ReasonCode, _: Properties | None) -> None:
        self._connected = code

    def _on_answers(self, _client: Any, _data: Any, mid: int, codes: list[ReasonCode], _: Properties | None) -> None:
        self._answers[mid] = codes

    def _on_publish(self, _client: Any, _data: Any, mid: int, code: ReasonCode, _: Properties | None) -> None:
        self._answers[mid] = [code]

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        if not message.topic.startswith("$"):
            self._findings.received.add(message.topic)


def trial_checks(environ: Mapping[str, str]) -> Iterator[Check]:
    """At the broker that DOCTOR_MQTT_URL names, with the login in it; else at the one of the farm that runs here, with a login
    that is made for the trial and taken out again."""
    try:
        given = load(_Given, environ).doctor_mqtt_url
        if given:
            yield from checks_of(try_broker(given))
            return
        edge = find_edge(environ)
        if isinstance(edge.broker, BrokerOfHome):
            yield from checks_of(asyncio.run(_try_own(edge.database_url, edge.broker)))
            yield refusals_check(asyncio.run(_recent_refusals(edge.database_url)))
        else:
            yield _NOT_TRIED
    except (FarmiqError, OSError, asyncpg.PostgresError) as error:
        fix = getattr(error, "fix", None) or "farmiq status, then farmiq doctor"
        yield Check("broker: trial", Verdict.WARNING, f"not tried: {mask(str(error))}", fix)


def refusals_check(recent: Sequence[tuple[str, str, int]]) -> Check:
    """Device, kind and count; a device that nobody knows has no name."""
    if not recent:
        return good("broker: refusals", f"none in the last {_RECENT_HOURS} hours")
    shown = "; ".join(
        f"{device_id or 'unknown clients'}: {kind} {count} times" for device_id, kind, count in recent[:3]
    )
    more = f"; and {len(recent) - 3} more" if len(recent) > 3 else ""
    fix = "docs/operations/runbook.md#farmiqbrokerrefusals; the device's page in the console says more"
    return Check("broker: refusals", Verdict.WARNING, f"in the last {_RECENT_HOURS} hours: {shown}{more}", fix)


async def _recent_refusals(database_url: str) -> list[tuple[str, str, int]]:
    connection = await asyncpg.connect(database_url, timeout=10.0, command_timeout=30.0)
    try:
        return await refusals.since(connection, Clock().now() - timedelta(hours=_RECENT_HOURS))
    finally:
        await connection.close(timeout=5.0)


async def _try_own(database_url: str, broker: BrokerOfHome) -> Findings:
    connection = await asyncpg.connect(database_url, timeout=10.0, command_timeout=60.0)
    try:
        await connection.execute(_TAKE_TURN, devices.REGISTER_LOCK_KEY)
        try:
            return await _try_with_login(connection, broker)
        finally:
            # Ctrl-C may come in the middle of this too, and the login must not stay.
            ending = asyncio.create_task(_end_trials(connection, broker))
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                await ending
                raise
    finally:
        await connection.close(timeout=5.0)


async def _end_trials(connection: Connection, broker: BrokerOfHome) -> None:
    """Also those of a trial that was killed."""
    if await devices.end_trials(connection):
        await apply_register(connection, broker)
    await devices.forget_trials(connection)


async def _try_with_login(connection: Connection, broker: BrokerOfHome) -> Findings:
    device_id, password = f"{devices.TRIAL_KIND}-{secrets.token_hex(6)}", secrets.token_urlsafe(24)
    await devices.add_trial(connection, device_id, hash_password(password))
    await apply_register(connection, broker)
    return await asyncio.to_thread(try_broker, mqtt_url(device_id, password, "127.0.0.1", broker.device_port))
