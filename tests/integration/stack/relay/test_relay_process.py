"""The relay as the supervisor runs it: orders, what it remembers when it is killed, and who may speak to it."""

import socket
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from farmiq.stack.ports import free_port
from farmiq.stack.relay.client import OrderRefused, RelayAway, RelayClient
from farmiq.stack.relay.faults import Bandwidth, Faults, RouteFaults, Timeout, both_ways
from farmiq.stack.relay.protocol import LINE_BYTES_MAX
from farmiq.stack.relay.route import Link, RouteSpec
from support.relayed import RelayProcess, echo_server, relay_process
from support.waiting import wait_for


@pytest.fixture
def relay(tmp_path: Path, run_folder: Path) -> Iterator[RelayProcess]:
    with echo_server() as near, echo_server() as far:
        routes = (
            RouteSpec("broker", (Link(free_port(), near),)),
            RouteSpec("wan", (Link(free_port(), near), Link(free_port(), far))),
        )
        with relay_process(tmp_path, run_folder, routes) as process:
            yield process


def ports(relay: RelayProcess, route: str) -> list[int]:
    return next(state.ports for state in relay.client.look() if state.name == route)


def echoes(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as talk:
        talk.sendall(b"ping")
        talk.settimeout(2)
        return talk.recv(4) == b"ping"
    return False


def test_a_cut_hits_every_port_of_its_route_and_no_other(relay: RelayProcess) -> None:
    assert all(echoes(port) for name in ("broker", "wan") for port in ports(relay, name))
    state = {one.name: one for one in relay.client.cut("wan")}
    assert (state["wan"].is_healthy, state["broker"].is_healthy) == (False, True)
    assert state["wan"].faults.since is not None
    assert [echoes(port) for port in ports(relay, "wan")] == [False, False]
    assert echoes(ports(relay, "broker")[0])
    assert all(one.is_healthy for one in relay.client.heal())
    assert all(echoes(port) for port in ports(relay, "wan"))


def test_what_it_was_told_outlives_a_kill(relay: RelayProcess) -> None:
    slow = both_ways(Faults(bandwidth=Bandwidth(bytes_per_second=1000)))
    relay.client.change("broker", slow)
    before = {one.name: one.faults for one in relay.client.cut("wan")}
    addresses = ports(relay, "wan")
    relay.kill()
    with pytest.raises(RelayAway):
        relay.client.look()
    relay.start()
    assert {one.name: one.faults for one in relay.client.look()} == before
    assert [echoes(port) for port in addresses] == [False, False]
    relay.client.heal("wan")
    assert all(echoes(port) for port in addresses)
    relay.kill()
    relay.start()
    healed = {one.name: one for one in relay.client.look()}
    assert healed["wan"].is_healthy
    assert healed["broker"].faults.names == ["bandwidth"]


def test_it_starts_again_on_its_ports_with_connections_left_over(relay: RelayProcess) -> None:
    port = ports(relay, "broker")[0]
    with closing(socket.create_connection(("127.0.0.1", port), timeout=2)) as talk:
        talk.sendall(b"ping")
        assert talk.recv(4) == b"ping"
        relay.kill()
        relay.start()
        wait_for(lambda: echoes(port), what="the same port to answer again")
        with suppress(ConnectionResetError):
            assert talk.recv(1) == b""


def test_a_fault_can_be_had_for_the_time_of_a_block(relay: RelayProcess) -> None:
    port = ports(relay, "broker")[0]
    with relay.client.broken("broker", both_ways(Faults(timeout=Timeout()))) as states:
        assert states[0].faults.names == ["timeout"]
        assert not echoes(port)
    assert echoes(port)


def test_an_order_that_makes_no_sense_is_refused_and_changes_nothing(relay: RelayProcess) -> None:
    with pytest.raises(OrderRefused, match="there is no route moon; there are broker, wan"):
        relay.client.cut("moon")
    for line in (b"\n", b"{}\n", b'{"do": "change", "route": "wan"}\n', b"\xff\n"):
        assert b'"malformed_order"' in said(relay, line)
    assert said(relay, b"x" * (LINE_BYTES_MAX + 10)) == b""
    assert all(one.is_healthy for one in relay.client.look())


def said(relay: RelayProcess, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talk:
        talk.settimeout(5)
        talk.connect(str(relay.program.socket))
        with suppress(BrokenPipeError):
            talk.sendall(line)
        with talk.makefile("rb") as answers, suppress(ConnectionResetError):
            return answers.readline()
    return b""


def test_nobody_else_can_give_it_orders_or_read_what_it_was_told(relay: RelayProcess) -> None:
    relay.client.change("wan", RouteFaults(down=True))
    files = [relay.program.socket, relay.program.memory_file, relay.program.folder / "routes.json"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600, 0o600]


def test_told_to_stop_it_ends_in_order_and_nobody_answers(relay: RelayProcess) -> None:
    relay.client.cut("wan")
    assert relay.stop() == 0
    with pytest.raises(RelayAway, match="does not answer"):
        RelayClient(relay.program.socket).look()
    relay.start()
    assert [one.name for one in relay.client.look() if not one.is_healthy] == ["wan"]
