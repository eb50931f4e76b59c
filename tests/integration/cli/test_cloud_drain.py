"""`farmiq cloud drain` and `resume` with real services on a real RabbitMQ."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiormq
import pytest

from farmiq.cli import exits
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.postgres import Pool
from farmiq.kit.work_queue import WorkQueue
from support.bus_queue import bind
from support.dead_letters import DEAD_LETTERS, QUEUE, SERVICE, filled, letter, numbered, waiting_ids
from support.entrance import event
from support.rabbitmq import NewVirtualHost
from support.service_process import StartService, start_service

__all__ = ["start_service"]  # a fixture

FARMIQ = Path(sys.executable).parent / "farmiq"
OTHERS = [work for service, work in WORK_QUEUES.items() if service != SERVICE]
Dies = tuple[str, str, str]


class Cloud:
    def __init__(self, amqp_url: str, database_url: str) -> None:
        self.environ = {"DATABASE_URL": database_url, "AMQP_URL": amqp_url, "ADMIN_TOKEN": "for-this-test"}
        self._environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "FARMIQ_HOME": "/nonexistent",
            "AMQP_URL": amqp_url,
            "CLOUD_DATABASE_URL": database_url,
        }

    async def run(self, *arguments: str, dies: Dies | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "support.dying_command", *dies] if dies else [str(FARMIQ)]
        return await asyncio.to_thread(
            subprocess.run,
            [*command, "cloud", *arguments],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    async def seen(self) -> dict[str, Any]:
        answer = await self.run("drain", "--status", "--json")
        assert answer.returncode == exits.OK, answer.stderr
        told: dict[str, Any] = json.loads(answer.stdout)
        return told


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest.fixture
def cloud(amqp_url: str, cloud_url: str) -> Cloud:
    return Cloud(amqp_url, cloud_url)


async def publish_readings(amqp_url: str, count: int) -> None:
    connection = await aiormq.connect(amqp_url)
    try:
        channel = await connection.channel(publisher_confirms=True)
        for _ in range(count):
            await channel.basic_publish(json.dumps(event()).encode(), routing_key=QUEUE)
    finally:
        await connection.close()


def waiting_in(seen: dict[str, Any], work: WorkQueue) -> int:
    return sum(queue["waiting"] for queue in seen["queues"] if queue["queue"] == work.name)


async def test_a_backlog_is_stored_dead_letters_are_saved_and_the_command_says_what_is_missing(
    cloud: Cloud, amqp_url: str, cloud_pool: Pool, start_service: StartService
) -> None:
    async with filled(amqp_url, letter(0), letter(1)):
        await publish_readings(amqp_url, 300)
    await bind(amqp_url, "their.queue", "farmiq.telemetry.exchange", "telemetry.#")

    unread = await cloud.run("drain", "--timeout", "0")

    assert unread.returncode == exits.FAILED
    assert f"{QUEUE}: 300 messages left. Nobody reads it: start {SERVICE}." in unread.stdout
    assert "The same command goes on" in unread.stdout
    assert "rabbitmqctl list_queues name messages" in unread.stdout, "queues of others can't be seen over AMQP"
    seen = await cloud.seen()
    assert (waiting_in(seen, WORK_QUEUES[SERVICE]), seen["drain"] is not None) == (300, True)
    service = start_service(SERVICE, cloud.environ)
    emptied = await cloud.run("drain", "--timeout", "60")
    assert emptied.returncode == exits.OK, emptied.stdout + emptied.stderr
    assert f"{SERVICE}: 2 dead letters are saved, 0 are in the queue." in emptied.stdout
    assert "Stop the cloud's services, then give the same command again" in emptied.stdout
    assert service.stop() == 0
    certain = await cloud.run("drain")
    assert "Nothing of FarmIQ is left in RabbitMQ: it can be replaced." in certain.stdout
    assert await cloud_pool.fetchval("SELECT count(*) FROM telemetry_raw") == 300
    assert await waiting_ids(cloud_pool, amqp_url) == numbered(range(2))

    resumed = await cloud.run("resume")
    assert "The cloud takes events again. It was drained since" in resumed.stdout
    assert "it was not drained" in (await cloud.run("resume")).stdout
    assert (await cloud.seen())["drain"] is None


@pytest.mark.parametrize(
    "dies",
    [
        ("farmiq.cloud.drain:begin", "after", "1"),
        ("farmiq.cloud.dead_letters.collection:_take", "after", "1"),
        ("farmiq.cloud.dead_letters.saved:save", "after", "1"),
    ],
)
async def test_killed_during_a_drain_the_intake_stays_closed_and_again_means_onwards(
    dies: Dies, cloud: Cloud, amqp_url: str, cloud_pool: Pool
) -> None:
    async with filled(amqp_url, *map(letter, range(5))):
        pass

    assert (await cloud.run("drain", dies=dies)).returncode == -signal.SIGKILL

    assert (await cloud.seen())["drain"] is not None
    again = await cloud.run("drain", "--timeout", "60")
    assert again.returncode == exits.OK, again.stdout + again.stderr
    assert await waiting_ids(cloud_pool, amqp_url) == numbered(range(5))
    assert not [queue for queue in (await cloud.seen())["dead_letters"] if queue["in_queue"]], DEAD_LETTERS


async def test_a_broker_that_is_away_leaves_the_intake_closed_and_says_how_to_open_it(cloud_url: str) -> None:
    cloud = Cloud("amqp://user:secret@127.0.0.1:1/", cloud_url)
    told = await cloud.run("drain")
    assert (told.returncode, "farmiq cloud resume" in told.stderr) == (exits.FAILED, True), told.stderr
    assert "secret" not in told.stderr
    assert "It was drained since" in (await cloud.run("resume")).stdout
