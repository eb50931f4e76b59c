"""`farmiq dlq` on a real RabbitMQ and a real cloud database."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farmiq.cli import exits
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.postgres import Pool
from support.bus_work import TABLE, Numbers, publish, working
from support.dead_letters import DEAD_LETTERS, QUEUE, SERVICE, filled, letter, waiting_ids
from support.rabbitmq import NewVirtualHost
from support.waiting import eventually

FARMIQ = Path(sys.executable).parent / "farmiq"


class Commands:
    def __init__(self, **variables: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
        self._environ = kept | {"FARMIQ_HOME": "/nonexistent"} | variables

    async def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(self._run, *arguments)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FARMIQ, "dlq", *arguments],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    async def told(self, *arguments: str) -> Any:
        answer = await self.run(*arguments, "--json")
        assert answer.returncode == exits.OK, answer.stderr
        return json.loads(answer.stdout)


@pytest.fixture
def url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest.fixture
def dlq(url: str, cloud_url: str) -> Commands:
    return Commands(AMQP_URL=url, CLOUD_DATABASE_URL=cloud_url)


async def test_a_queue_filled_by_a_bug_is_brought_back_with_one_command_after_the_fix(
    url: str, dlq: Commands, cloud_pool: Pool
) -> None:
    await cloud_pool.execute(TABLE)
    queue = msgspec.structs.replace(WORK_QUEUES[SERVICE], rest_seconds=0.0, retry_seconds=())
    numbers = [number for number in range(1, 40) if number != 13]
    async with filled(url) as publisher:
        async with working(url, Numbers(cloud_pool, bugs=dict.fromkeys(numbers, 1)), queue=queue):
            await publish(publisher, *numbers)

            async def are_dead() -> bool:
                return await publisher.depths([DEAD_LETTERS]) == {DEAD_LETTERS: len(numbers)}

            await eventually(are_dead)
        fixed = Numbers(cloud_pool)
        async with working(url, fixed, queue=queue):
            answer = await dlq.run("replay", "--service", SERVICE)

            async def are_stored() -> bool:
                return await fixed.stored() == numbers

            async def are_empty() -> bool:
                return await publisher.depths([QUEUE, DEAD_LETTERS]) == {QUEUE: 0, DEAD_LETTERS: 0}

            await eventually(are_stored)
            await eventually(are_empty)  # a worker that stops before its acknowledgements are out gets them once more
    assert answer.returncode == exits.OK, answer.stderr
    assert f"{len(numbers)} replayed." in answer.stdout


async def test_letters_are_counted_shown_and_discarded_and_it_is_on_record(
    url: str, dlq: Commands, cloud_pool: Pool
) -> None:
    letters = [*map(letter, range(3)), letter(3, reason="refused", tenant_id="other"), letter(4, body=b"\xff rubbish")]
    async with filled(url, *letters):
        listed = await dlq.run("ls")
        assert f"{DEAD_LETTERS}: 5 letters" in listed.stdout
        assert [line.split()[1:4] for line in listed.stdout.splitlines()[1:3]] == [
            ["schema", "telemetry.ingested", "4"],
            ["refused", "telemetry.ingested", "1"],
        ]
        shown = await dlq.run("show", "--service", SERVICE, "--reason", "schema", "--until", "2026-01-01T10:01:00Z")
        assert shown.stdout.splitlines()[0].startswith("m-0  telemetry.ingested  tenant demo  2026-01-01 10:00:00Z")
        assert "  schema: for a test" in shown.stdout
        [odd] = await dlq.told("show", "--id", "m-4")
        assert (odd["body"], odd["letter"]["reason"]) == ("/yBydWJiaXNo", "schema")

        refused = await dlq.run("discard", "--queue", DEAD_LETTERS, "--reason", "refused")
        assert (refused.returncode, "--yes" in refused.stderr) == (exits.USAGE, True)
        dry = await dlq.told("discard", "--queue", DEAD_LETTERS, "--reason", "refused", "--dry-run")
        assert dry["counts"] == {"seen": 5, "matched": 1, "done": 0, "failed": 0}
        gone = await dlq.run("discard", "--queue", DEAD_LETTERS, "--reason", "refused", "--yes")
        assert "1 discarded." in gone.stdout
    assert await waiting_ids(cloud_pool, url) == ["m-0", "m-1", "m-2", "m-4"]
    actions = await dlq.told("actions")
    assert [(one["kind"], one["is_dry_run"], one["done"], one["filter"]) for one in actions] == [
        ("discard", False, 1, {"reason": "refused"}),
        ("discard", True, 0, {"reason": "refused"}),
    ]
    assert "@" in actions[0]["asked_by"]
    assert "discard (dry run)" in (await dlq.run("actions")).stdout


async def test_what_can_not_be_done_is_explained(url: str, dlq: Commands, cloud_url: str) -> None:
    nothing_there = await dlq.run("ls")
    assert (nothing_there.returncode, "topology apply" in nothing_there.stderr) == (exits.FAILED, True)
    unsaid = await dlq.run("replay")
    assert (unsaid.returncode, "whose dead letters?" in unsaid.stderr) == (exits.USAGE, True)
    hasty = await dlq.run("discard", "--service", SERVICE, "--yes")
    assert (hasty.returncode, "or --all" in hasty.stderr) == (exits.USAGE, True)
    away = Commands(AMQP_URL="amqp://user:secret@127.0.0.1:1/", CLOUD_DATABASE_URL=cloud_url)
    for command in (("ls",), ("replay", "--service", SERVICE)):
        told = await away.run(*command)
        assert (told.returncode, "RabbitMQ" in told.stderr) == (exits.FAILED, True), told.stderr
        assert "secret" not in told.stderr + told.stdout
