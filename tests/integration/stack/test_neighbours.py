"""A whole stack, and another user of the same machine who tries every way in that does not go through a file of ours."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from farmiq.stack import binaries
from farmiq.stack.control import read_state, start, stop, wait_until_healthy
from farmiq.stack.home import Home
from farmiq.stack.processes import leftovers
from farmiq.stack.secrets import load_or_create
from support.stranger import needs_root, new_open_folder, python_as_stranger, run_as_stranger

pytestmark = needs_root


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """In a folder that everybody can enter: what protects the farm has to be its own."""
    parent = new_open_folder()
    home = Home(parent / "farm")
    start(home, os.environ, services=())
    wait_until_healthy(home, lambda _: None)
    yield home
    stop(home, purge=True)
    shutil.rmtree(parent)


_TRY_FILES = """
import os, sys
for path in sys.argv[1:]:
    for attempt in (lambda: os.listdir(path), lambda: open(path, "rb").read(1)):
        try:
            attempt()
        except (PermissionError, NotADirectoryError, IsADirectoryError, OSError) as error:
            if not isinstance(error, PermissionError):
                print(path, type(error).__name__)
        else:
            print(path, "is open")
"""


def test_no_file_of_the_farm_and_nothing_of_its_processes_can_be_read(home: Home) -> None:
    paths = [str(home.path), str(home.secrets_file), str(home.server_folder("rabbitmq") / ".erlang.cookie")]
    paths += [f"/proc/{process.pid}/{name}" for process in leftovers(home.path) for name in ("environ", "fd")]
    done = python_as_stranger(_TRY_FILES, *paths)
    shown = [line for line in done.stdout.splitlines() if not line.endswith("NotADirectoryError")]
    assert (done.returncode, shown) == (0, [])


_CONNECT_UNIX = """
import socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(path)
            print(path, "lets everybody in")
        except PermissionError:
            print("refused")
"""


def test_no_unix_socket_of_any_process_lets_another_user_in(home: Home) -> None:
    sockets = listening_sockets(home)
    assert any(path.name.startswith(".s.PGSQL") for path in sockets)
    assert any(path.name.startswith("seaweedfs-") for path in sockets)
    assert any(path.name == "relay.sock" for path in sockets)
    answers = python_as_stranger(_CONNECT_UNIX, *(str(path) for path in sockets)).stdout.splitlines()
    assert answers == ["refused"] * len(sockets)


def listening_sockets(home: Home) -> list[Path]:
    """Of every process of the stack, as the kernel lists them. `00010000` is the flag of one that listens."""
    own = set()
    for process in leftovers(home.path):
        for entry in Path(f"/proc/{process.pid}/fd").iterdir():
            own.add(str(entry.readlink()))
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    named = [line for line in lines if len(line) == 8 and line[3] == "00010000" and f"socket:[{line[6]}]" in own]
    assert not [line[7] for line in named if line[7].startswith("@")]
    return [Path(line[7]) for line in named]


_KNOCK = """
import json, socket, struct, sys
ports = json.loads(sys.argv[1])

def talk(port, sent):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.sendall(sent)
        try:
            return link.recv(4096).hex()
        except ConnectionError:
            return ""

def text(value):
    return struct.pack("!H", len(value)) + value

def packet(kind, body):
    return bytes([kind, len(body)]) + body

anonymous = packet(0x10, text(b"MQTT") + bytes([4, 2, 0, 10]) + text(b"stranger"))
gateway = text(b"edge-ingress-gateway")
named = packet(0x10, text(b"MQTT") + bytes([4, 0xC2, 0, 10]) + gateway + gateway + text(b""))
startup = b"user\\0postgres\\0database\\0postgres\\0\\0"
print(json.dumps({
    "mqtt": [talk(port, sent) for port in ports["mqtt"] for sent in (anonymous, named)],
    "postgres": talk(ports["postgres"], struct.pack("!II", len(startup) + 8, 196608) + startup),
}))
"""


def test_no_broker_and_no_database_lets_another_user_in_without_a_password(home: Home) -> None:
    ports = json.loads(home.ports_file.read_text())
    mqtt = [ports[name] for name in ("mosquitto", "mosquitto-services")]
    done = python_as_stranger(_KNOCK, json.dumps({"mqtt": mqtt, "postgres": ports["postgres"]}))
    answers = json.loads(done.stdout)
    # CONNACK with "bad user name or password" or "not authorised", at both listeners.
    assert {answer[:6] for answer in answers["mqtt"]} == {"200200"}
    assert {answer[6:] for answer in answers["mqtt"]} <= {"04", "05"}
    # Authentication is asked for, by SCRAM.
    assert bytes.fromhex(answers["postgres"]).startswith(b"R\0\0\0\x17\0\0\0\nSCRAM-SHA-256")


def test_erlang_takes_no_order_from_whoever_lacks_the_cookie(home: Home) -> None:
    """With the cookie the same program, run by the same user, is obeyed: so it is the cookie that stops him."""
    cookie = load_or_create(home.secrets_file).rabbitmq_cookie
    refused, obeyed = (order_to_erlang(home, word) for word in ("wrong", cookie))
    assert "{ok, " not in refused
    assert "{ok, 42}" in obeyed


def order_to_erlang(home: Home, cookie: str) -> str:
    ports = json.loads(home.ports_file.read_text())
    log = home.log_file("rabbitmq").read_text(errors="replace")
    node = re.search(r"farmiq-[0-9a-f]{12}@localhost", log)
    assert node
    command = [binaries.erl_call(), "-c", cookie, "-timeout", "10", "-n", node[0], "-e"]
    done = run_as_stranger(command, stdin="42.\n", variables={"ERL_EPMD_PORT": str(ports["epmd"])})
    return done.stdout + done.stderr


@pytest.mark.parametrize("order", [["-kill"], ["-stop", "rabbit"]])
def test_the_name_service_of_erlang_cannot_be_ended(home: Home, order: list[str]) -> None:
    ports = json.loads(home.ports_file.read_text())
    before = next(child.pid for child in read_state(home).children if child.name == "epmd")
    node = order_to_erlang(home, "wrong")  # it lives, or an empty name service could be ended by anybody
    assert node
    run_as_stranger([binaries.epmd(), "-port", str(ports["epmd"]), *order])
    assert before
    assert psutil.Process(before).is_running()
    assert next(child.pid for child in read_state(home).children if child.name == "epmd") == before


def test_no_port_is_open_that_was_not_tried_here(home: Home) -> None:
    """Those of the object store are tried in test_seaweedfs.py."""
    ports = json.loads(home.ports_file.read_text())
    known = {port for name, port in ports.items() if name.startswith("seaweedfs-")}
    known |= {ports[name] for name in ("mosquitto", "mosquitto-services", "postgres", "epmd")}
    known |= {ports["rabbitmq"], ports["rabbitmq-distribution"]}
    known |= {port for name, port in ports.items() if name.startswith("relay-") or name == "mosquitto-devices"}
    listening = {
        connection.laddr.port
        for process in leftovers(home.path)
        for connection in psutil.Process(process.pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= known
