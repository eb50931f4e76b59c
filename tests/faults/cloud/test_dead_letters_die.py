"""`farmiq dlq` is killed at every step between a letter's arrival elsewhere and its removal here."""

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from farmiq.cloud.dead_letters import audit
from farmiq.cloud.dead_letters.walk import WINDOW
from farmiq.kit.postgres import Pool
from support.dead_letters import DEAD_LETTERS, QUEUE, SERVICE, filled, ids_in, letter, numbered
from support.rabbitmq import NewVirtualHost
from support.waiting import eventually

COUNT = WINDOW + 20
Death = tuple[str, str, str]
REPLAYS: dict[str, Death] = {
    "with the first window confirmed and not removed": ("farmiq.kit.amqp:Publisher.publish_many", "after", "1"),
    "with the first window removed and the second not begun": (
        "farmiq.cloud.dead_letters.walk:Walk.remove",
        "after",
        "1",
    ),
    "before anything was touched": ("farmiq.cloud.dead_letters.audit:begin", "after", "1"),
    "at the very end": ("farmiq.cloud.dead_letters.audit:finish", "before", "1"),
}
DISCARDS: dict[str, Death] = {
    "with the first window kept and not removed": ("farmiq.cloud.dead_letters.audit:keep", "after", "1"),
    "with the first window removed": ("farmiq.cloud.dead_letters.walk:Walk.remove", "after", "1"),
}


async def run_farmiq(environ: dict[str, str], *arguments: str, dies: Death | None = None) -> int:
    prefix = ["-m", "support.dying_command", *dies] if dies else ["-m", "farmiq.cli"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *prefix,
        *arguments,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2]), **environ},
        stdout=asyncio.subprocess.DEVNULL,
    )
    return await asyncio.wait_for(process.wait(), 60)


async def until_given_back(url: str, count: int) -> None:
    async with filled(url) as publisher:

        async def are_back() -> bool:
            depths = await publisher.depths([DEAD_LETTERS])
            return (depths[DEAD_LETTERS] or 0) >= count

        await eventually(are_back, what="RabbitMQ to take back what was held")


@pytest.mark.parametrize("moment", REPLAYS)
async def test_killed_during_a_replay_every_letter_is_in_one_queue_or_both_and_again_means_onwards(
    moment: str, cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    url = new_vhost()
    environ = {"AMQP_URL": url, "CLOUD_DATABASE_URL": cloud_url}
    async with filled(url, *map(letter, range(COUNT))):
        pass

    assert await run_farmiq(environ, "dlq", "replay", "--service", SERVICE, dies=REPLAYS[moment]) == -signal.SIGKILL

    replayed = Counter(await ids_in(url, QUEUE))
    missing = [one for one in numbered(range(COUNT)) if one not in replayed]
    await until_given_back(url, len(missing))
    assert await run_farmiq(environ, "dlq", "replay", "--service", SERVICE) == 0
    replayed += Counter(await ids_in(url, QUEUE))
    assert set(replayed) == set(numbered(range(COUNT)))
    assert max(replayed.values()) <= 2
    assert await ids_in(url, DEAD_LETTERS) == []
    async with cloud_pool.acquire() as connection:
        second, first = await audit.actions(connection, 10)
    assert (first.finished_at, second.error) == (None, None)
    assert second.finished_at is not None


@pytest.mark.parametrize("moment", DISCARDS)
async def test_killed_during_a_discard_every_letter_is_in_the_queue_or_kept(
    moment: str, cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    url = new_vhost()
    environ = {"AMQP_URL": url, "CLOUD_DATABASE_URL": cloud_url}
    command = ("dlq", "discard", "--service", SERVICE, "--all", "--yes")
    async with filled(url, *map(letter, range(COUNT))):
        pass

    assert await run_farmiq(environ, *command, dies=DISCARDS[moment]) == -signal.SIGKILL

    await until_given_back(url, COUNT - WINDOW)
    assert await run_farmiq(environ, *command) == 0
    rows = await cloud_pool.fetch("SELECT message_id FROM discarded_letters")
    kept = Counter(row["message_id"] for row in rows)
    assert set(kept) == set(numbered(range(COUNT)))
    assert max(kept.values()) <= 2
    assert await ids_in(url, DEAD_LETTERS) == []
