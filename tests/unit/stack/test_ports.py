import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farmiq.stack.port_reservations import HELD_SECONDS, reserving
from farmiq.stack.ports import choose_ports, free_port, is_free


@contextmanager
def listening(port: int, address: str = "127.0.0.1") -> Iterator[None]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
        yield


def test_the_documented_port_is_taken_when_it_is_free(tmp_path: Path) -> None:
    documented = free_port()
    assert choose_ports(tmp_path / "ports.json", {"postgres": documented}) == {"postgres": documented}


@pytest.mark.parametrize("address", ["127.0.0.1", ""])  # on loopback, and everywhere
def test_a_port_of_somebody_else_is_left_alone(tmp_path: Path, address: str) -> None:
    documented = free_port()
    with listening(documented, address):
        chosen = choose_ports(tmp_path / "ports.json", {"postgres": documented})["postgres"]
        assert chosen != documented
        assert is_free(chosen)


def test_chosen_ports_are_remembered(tmp_path: Path) -> None:
    wanted: dict[str, int | None] = {"epmd": None, "rabbitmq": None}
    first = choose_ports(tmp_path / "ports.json", wanted)
    assert choose_ports(tmp_path / "ports.json", wanted) == first


def test_a_remembered_port_that_was_taken_meanwhile_is_replaced_and_the_new_one_remembered(tmp_path: Path) -> None:
    memory = tmp_path / "ports.json"
    first = choose_ports(memory, {"epmd": None, "rabbitmq": None})
    with listening(first["epmd"]):
        second = choose_ports(memory, {"epmd": None, "rabbitmq": None})
    assert second["epmd"] != first["epmd"]
    assert second["rabbitmq"] == first["rabbitmq"]
    assert choose_ports(memory, {"epmd": None, "rabbitmq": None}) == second


def test_a_newcomer_does_not_take_the_port_that_another_one_remembers(tmp_path: Path) -> None:
    memory = tmp_path / "ports.json"
    shared = free_port()
    choose_ports(memory, {"old": shared})
    chosen = choose_ports(memory, {"new": shared, "old": None})
    assert chosen["old"] == shared
    assert chosen["new"] != shared


def test_a_server_that_is_external_for_a_while_gets_its_port_back(tmp_path: Path) -> None:
    memory = tmp_path / "ports.json"
    first = choose_ports(memory, {"postgres": None, "mosquitto": None})
    choose_ports(memory, {"mosquitto": None})
    assert choose_ports(memory, {"postgres": None, "mosquitto": None}) == first


def test_two_farms_that_choose_at_the_same_moment_choose_different_ports(tmp_path: Path) -> None:
    """Neither listens yet, so nothing but what was written down tells the second one."""
    documented = free_port()
    first = choose_ports(tmp_path / "a.json", {"postgres": documented, "epmd": None})
    second = choose_ports(tmp_path / "b.json", {"postgres": documented, "epmd": None})
    assert first["postgres"] == documented
    assert not set(first.values()) & set(second.values())


def test_a_port_that_somebody_is_about_to_listen_on_is_given_to_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A farm's servers start one after the other, so its ports look free for a while, as does a port asked for on its own."""
    farm = choose_ports(tmp_path / "ports.json", {"early": None, "late": None})
    alone = free_port()
    drawn = iter([farm["early"], alone, farm["late"], (other := free_port()) + 1, other + 2, other + 3])
    monkeypatch.setattr(random, "randint", lambda _lowest, _highest: next(drawn))
    assert free_port() not in {*farm.values(), alone, other}


def test_what_another_process_reserved_is_not_a_farms_to_take(tmp_path: Path) -> None:
    with reserving("another process") as reservations:
        reservations.add(documented := 14_999)
    assert choose_ports(tmp_path / "ports.json", {"postgres": documented})["postgres"] != documented


def test_a_reservation_ends_and_a_torn_file_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "reserved.json"
    with reserving("one", file) as reservations:
        reservations.add(7)
    with reserving("two", file) as reservations:
        assert reservations.is_anothers(7)
    with reserving("one", file) as reservations:
        assert not reservations.is_anothers(7)
    later = time.time() + HELD_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    with reserving("two", file) as reservations:
        assert not reservations.is_anothers(7)
    file.write_text('{"7": [99999')
    with reserving("two", file) as reservations:
        assert reservations.entries == {}


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with reserving("one", tmp_path / "link") as reservations:
        reservations.add(7)
    assert not (tmp_path / "victim").exists()
