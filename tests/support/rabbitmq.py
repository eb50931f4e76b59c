import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farmiq.stack.ports import free_port
from farmiq.stack.rabbitmq import Epmd, RabbitMq
from support.run_folder import locked, memory_folder
from support.server_process import SHARED, ServerProcess
from support.waiting import wait_for

NewVirtualHost = Callable[[], str]


def start_rabbitmq(folder: Path, home: Path) -> tuple[ServerProcess, ServerProcess]:
    epmd = Epmd(free_port())
    server = RabbitMq(folder, free_port(), free_port(), epmd.port, secrets.token_urlsafe(16), secrets.token_hex(16))
    processes = (
        ServerProcess(epmd, home, folder.with_suffix(".epmd.log")),
        ServerProcess(server, home, folder.with_suffix(".log")),
    )
    for process in processes:
        process.start(seconds=120)
    return processes


@pytest.fixture(scope="session")
def _rabbitmq(run_folder: Path) -> RabbitMq:
    """One node for the whole run. The first worker that needs it starts it; the run's warden ends it."""
    folder, note = memory_folder(run_folder) / "rabbitmq", run_folder / "rabbitmq.json"
    with locked(run_folder / "rabbitmq.lock"):
        if not note.exists():
            processes = start_rabbitmq(folder, run_folder)
            SHARED.extend(processes)
            server = processes[1].server
            assert isinstance(server, RabbitMq)
            known = [server.port, server.distribution_port, server.epmd_port, server.password, server.cookie]
            note.write_text(json.dumps(known))
    return RabbitMq(folder, *json.loads(note.read_text()))


@pytest.fixture(scope="session")
def shared_rabbitmq(_rabbitmq: RabbitMq) -> RabbitMq:
    """The node itself, for what clients can't ask it. Whoever changes anything does it in a virtual host of `new_vhost`."""
    return _rabbitmq


@pytest.fixture(scope="session")
def rabbitmq_url(_rabbitmq: RabbitMq) -> str:
    """URL of the default virtual host of a real RabbitMQ that this run shares. Prefer `new_vhost`, which nobody else uses."""
    return _rabbitmq.url()


def fresh_vhost(server: RabbitMq) -> Iterator[str]:
    """The URL of a virtual host that is deleted at the end, with everything in it."""
    name, everything = f"t{secrets.token_hex(6)}", ", ".join(['<<".*">>'] * 3)
    control(
        server,
        f'ok = rabbit_vhost:add(<<"{name}">>, <<"test">>)',
        f'ok = rabbit_auth_backend_internal:set_permissions(<<"{server.user}">>, <<"{name}">>, {everything}, <<"test">>)',
    )
    yield server.url(name)
    control(server, f'ok = rabbit_vhost:delete(<<"{name}">>, <<"test">>)')


@pytest.fixture
def new_vhost(_rabbitmq: RabbitMq) -> Iterator[NewVirtualHost]:
    """Call it for the URL of a fresh virtual host. Deleted after the test, with everything in it."""
    made: list[Iterator[str]] = []

    def make() -> str:
        made.append(fresh_vhost(_rabbitmq))
        return next(made[-1])

    yield make
    for one in made:
        next(one, None)


def control(server: RabbitMq, *expressions: str) -> None:
    """Evaluates Erlang expressions inside the node. `rabbitmqctl` would take seconds to do the same."""

    def answer() -> str:
        finished = subprocess.run(
            ["erl_call", "-r", "-timeout", "30", "-n", server.node_name, "-e"],
            input=", ".join((*expressions, "done.\n")),
            env=server.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        told = finished.stdout + finished.stderr
        # On a busy machine the handshake now and then takes longer than erl_call waits; nothing was evaluated then.
        return "" if "failed to connect" in told else told

    told = wait_for(answer, 60.0, "RabbitMQ to take the command")
    assert "done" in told, f"RabbitMQ refused: {told}"


@pytest.fixture
def rabbitmq_server(run_folder: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """A node of the test's own, for tests that kill or restart it. Takes about ten seconds to start."""
    epmd, rabbitmq = start_rabbitmq(tmp_path / "rabbitmq", run_folder)
    yield rabbitmq
    rabbitmq.kill()  # nobody needs what it keeps: an orderly end takes seconds
    epmd.stop()
