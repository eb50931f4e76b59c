"""`farmiq cloud topology` on real brokers: made, compared, written down, and read back by RabbitMQ's own tools."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiormq
import pytest
from pamqp.common import FieldValue

from farmiq.cli import exits
from farmiq.cloud.topology import topology
from farmiq.contracts import bus
from farmiq.stack.ports import free_port
from farmiq.stack.private_files import write_private
from farmiq.stack.rabbitmq import Epmd, RabbitMq
from support.bus_queue import bind
from support.rabbitmq import NewVirtualHost
from support.server_process import ServerProcess

FARMIQ = Path(sys.executable).parent / "farmiq"
RABBITMQCTL = "/usr/lib/rabbitmq/bin/rabbitmqctl"


@dataclass(frozen=True)
class ManagedRabbitMq(RabbitMq):
    """With the management plugin, as operators of larger clouds have it."""

    management_port: int = 0

    def prepare(self) -> None:
        super().prepare()
        settings = self.folder / "rabbitmq.conf"
        write_private(
            settings,
            f"{settings.read_text()}management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self.management_port}\n",
        )
        write_private(self.folder / "enabled_plugins", "[rabbitmq_management].\n")

    @property
    def management_url(self) -> str:
        return f"http://{self.user}:{quote(self.password, safe='')}@127.0.0.1:{self.management_port}"

    def ctl(self, *arguments: str) -> None:
        """`rabbitmqctl`, as it would be run on the broker's machine."""
        subprocess.run([RABBITMQCTL, *arguments], env=self.environment(), capture_output=True, check=True, timeout=60)


@pytest.fixture(scope="module")
def managed(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedRabbitMq]:
    folder = tmp_path_factory.mktemp("managed") / "rabbitmq"
    epmd = Epmd(free_port())
    server = ManagedRabbitMq(
        folder, free_port(), free_port(), epmd.port, secrets.token_urlsafe(16), secrets.token_hex(16), free_port()
    )
    processes = [
        ServerProcess(epmd, run_folder, folder.with_suffix(".epmd.log")),
        ServerProcess(server, run_folder, folder.with_suffix(".log")),
    ]
    for process in processes:
        process.start(seconds=120)
    yield server
    for process in reversed(processes):
        process.stop()


def farmiq(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run(["cloud", "topology", *arguments], variables)


def run(arguments: Sequence[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
    return subprocess.run(
        [FARMIQ, *arguments],
        env=kept | {"FARMIQ_HOME": "/nonexistent"} | dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def told(*arguments: str, **variables: str) -> Any:
    answer = farmiq(*arguments, "--json", **variables)
    assert answer.returncode in (exits.OK, exits.FAILED), answer.stderr
    return json.loads(answer.stdout)


async def test_apply_makes_everything_once_and_diff_says_so(new_vhost: NewVirtualHost) -> None:
    url = new_vhost()
    wanted = len(topology().exchanges) + len(topology().queues)

    before = told("diff", AMQP_URL=url)
    first = told("apply", AMQP_URL=url)
    second = farmiq("apply", AMQP_URL=url)
    after = farmiq("diff", AMQP_URL=url)

    assert {one["state"] for one in before["findings"]} == {"missing"}
    assert len(before["findings"]) == len(first["made"]) == wanted
    assert (second.returncode, second.stdout) == (exits.OK, "Every exchange, queue and binding is there.\n")
    assert after.returncode == exits.OK
    assert after.stdout.startswith("No difference in exchanges and queues.")
    assert "AMQP_MANAGEMENT_URL" in after.stdout


async def test_what_exists_with_other_settings_is_named_with_what_to_do_and_is_left_alone(
    new_vhost: NewVirtualHost,
) -> None:
    url = new_vhost()
    [wanted] = [queue for queue in topology().queues if queue.name == bus.MEDIA_STORE_QUEUE]
    arguments: dict[str, FieldValue] = wanted.arguments() | {"x-delivery-limit": 5}
    async with aiormq.connect(url) as connection:
        channel = await connection.channel()
        await channel.queue_declare(bus.MEDIA_STORE_QUEUE, durable=True, arguments=arguments)
        await channel.basic_publish(b"precious", routing_key=bus.MEDIA_STORE_QUEUE)

        answer = farmiq("apply", AMQP_URL=url)
        look = told("diff", AMQP_URL=url)

        assert answer.returncode == exits.FAILED
        assert f"different: queue {bus.MEDIA_STORE_QUEUE}" in answer.stdout
        assert "x-delivery-limit" in answer.stdout
        assert "FarmIQ never deletes one. Let its consumers empty it" in answer.stdout
        assert [(one["name"], one["state"]) for one in look["findings"]] == [(bus.MEDIA_STORE_QUEUE, "different")]
        assert (await channel.basic_get(bus.MEDIA_STORE_QUEUE)).body == b"precious"


async def test_what_is_exported_can_be_imported_by_rabbitmq_and_is_then_no_different(
    managed: ManagedRabbitMq, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "farmiq.json", tmp_path / "rabbitmq.json"
    exporting = farmiq("export", str(ours))
    managed.ctl("import_definitions", str(ours))
    managed.ctl("export_definitions", str(theirs))
    known = {"AMQP_URL": managed.url(), "AMQP_MANAGEMENT_URL": managed.management_url}

    over_amqp = farmiq("diff", AMQP_URL=managed.url())
    over_management = farmiq("diff", **known)
    with_file = farmiq("diff", "--definitions", str(theirs))

    assert f"rabbitmqctl import_definitions {ours}" in exporting.stdout
    assert over_amqp.returncode == exits.OK, over_amqp.stdout
    assert over_management.returncode == exits.OK, over_management.stderr
    assert over_management.stdout == with_file.stdout == "No difference.\n"

    await bind(managed.url(), "somebody.queue", bus.MEDIA_EXCHANGE, "media.#")
    async with aiormq.connect(managed.url()) as connection:
        channel = await connection.channel()
        await channel.queue_unbind(bus.MEDIA_STORE_QUEUE, bus.MEDIA_EXCHANGE, "media.#")
        await channel.queue_declare("farmiq.cloud-media-store.old.queue", durable=True)
    assert [(one["kind"], one["state"], one["name"]) for one in told("diff", **known)["findings"]] == [
        ("binding", "missing", f"{bus.MEDIA_EXCHANGE} -> {bus.MEDIA_STORE_QUEUE} (media.#)"),
        ("queue", "unexpected", "farmiq.cloud-media-store.old.queue"),
    ]

    assert farmiq("apply", AMQP_URL=managed.url()).returncode == exits.OK
    assert [one["state"] for one in told("diff", **known)["findings"]] == ["unexpected"]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, ["which RabbitMQ?", "set AMQP_URL="]),
        ({"AMQP_URL": "http://127.0.0.1/"}, ["AMQP_URL is not the address of a RabbitMQ"]),
        ({"AMQP_URL": "amqp://user:secret@127.0.0.1:1/"}, ["RabbitMQ does not let us in", "fix:"]),
        (
            {"AMQP_URL": "amqp://127.0.0.1:1/", "AMQP_MANAGEMENT_URL": "http://user:secret@127.0.0.1:1"},
            ["The management API does not answer"],
        ),
    ],
)
def test_a_broker_that_can_not_be_asked_is_told_with_what_to_do(variables: dict[str, str], words: list[str]) -> None:
    answer = farmiq("diff", **variables)

    assert answer.returncode in (exits.FAILED, exits.BAD_SETTINGS)
    assert all(word in answer.stderr for word in words), answer.stderr
    assert "secret" not in answer.stderr


def test_a_file_that_holds_no_definitions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text("[]")

    answer = farmiq("diff", "--definitions", str(tmp_path / "odd.json"))

    assert answer.returncode == exits.USAGE
    assert "rabbitmqctl export_definitions FILE writes one" in answer.stderr


async def test_a_user_of_the_bus_is_made_listed_and_revoked_over_the_management_api(
    managed: ManagedRabbitMq, cloud_url: str, tmp_path: Path
) -> None:
    known = {
        "AMQP_URL": managed.url(),
        "AMQP_MANAGEMENT_URL": managed.management_url,
        "CLOUD_DATABASE_URL": cloud_url,
    }
    file = tmp_path / "acme.json"

    added = run(["bus", "user", "add", "acme", "--tenant", "demo", "--json", "--output", str(file)], known)
    assert (added.returncode, added.stdout) == (exits.OK, ""), added.stderr
    login = json.loads(file.read_text())
    assert file.stat().st_mode & 0o777 == 0o600
    async with aiormq.connect(login["amqp_url"]) as connection:
        assert (await (await connection.channel()).basic_get(login["queue"])).body == b""
    twice = run(["bus", "user", "add", "acme", "--tenant", "demo"], known)
    assert twice.returncode == exits.FAILED
    assert "farmiq bus user revoke" in twice.stderr
    assert "acme.events.queue" in run(["bus", "user", "ls"], known).stdout
    assert run(["bus", "user", "revoke", "acme"], known).returncode == exits.OK
    assert json.loads(run(["bus", "user", "ls", "--json"], known).stdout) == []
    with pytest.raises(aiormq.exceptions.AMQPError):
        await aiormq.connect(login["amqp_url"])
    without = run(["bus", "user", "add", "acme", "--tenant", "demo"], known | {"AMQP_MANAGEMENT_URL": ""})
    assert without.returncode == exits.BAD_SETTINGS
    assert "AMQP_MANAGEMENT_URL" in without.stderr
