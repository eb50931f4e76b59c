import asyncio
from typing import Any

from farmiq.kit.postgres import Pool
from farmiq.outbox import CHANNEL, Announcer
from support.waiting import eventually


async def test_a_burst_of_commits_is_announced_at_once_and_then_together(pool: Pool) -> None:
    heard: list[str] = []

    def hear(_connection: Any, _pid: int, channel: str, _payload: Any) -> None:
        heard.append(channel)

    async with pool.acquire() as connection:
        await connection.add_listener(CHANNEL, hear)
        announcer = Announcer(pool, quiet_seconds=0.3)
        for _ in range(500):
            announcer.announce()
        await announcer.close()
        await eventually(lambda: _has(heard), what="an announcement")
        announcer.announce()
        announcer.announce()
        await announcer.close()
        await connection.execute("SELECT 1")
        await connection.remove_listener(CHANNEL, hear)
    assert set(heard) == {CHANNEL}
    assert 2 <= len(heard) <= 4


async def _has(heard: list[str]) -> bool:
    return bool(heard)


async def test_an_announcement_during_the_quiet_time_is_not_lost(pool: Pool) -> None:
    heard = asyncio.Semaphore(0)
    async with pool.acquire() as connection:

        def hear(*_notice: Any) -> None:
            heard.release()

        await connection.add_listener(CHANNEL, hear)
        announcer = Announcer(pool, quiet_seconds=0.2)
        announcer.announce()
        await asyncio.wait_for(heard.acquire(), 10)
        announcer.announce()
        await asyncio.wait_for(heard.acquire(), 10)
        await announcer.close()
        await connection.remove_listener(CHANNEL, hear)
    assert heard.locked()
