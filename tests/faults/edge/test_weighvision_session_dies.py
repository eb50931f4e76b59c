"""Killed between any two lines of its look, a session ends incomplete, heals, and is told exactly once.

A look is one transaction. Whoever dies inside it has done nothing, and the session is due for the next one; whoever dies after
it has done all of it, and the next one finds nothing to do.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from farmiq.contracts import event_types
from farmiq.kit.postgres import Pool
from support.service_process import Death, ServiceProcess, service_process
from support.session_rows import open_alerts, told_of
from support.station import Edge
from support.waiting import eventually
from support.weighing import Weighing, register_stations

SERVICE = "edge-weighvision-session"
HERE = "farmiq.edge.weighvision_session"
INSIDE_THE_TIMEOUT: list[Death] = [
    (f"{HERE}.store:lock_due", "after", 1),
    (f"{HERE}.handlers:raise_alert", "after", 1),
    (f"{HERE}.store:settle", "after", 1),
]
INSIDE_THE_HEALING: list[Death] = [
    (f"{HERE}.handlers:append_ending", "after", 1),
    (f"{HERE}.handlers:close_alert", "after", 1),
    (f"{HERE}.store:settle", "after", 1),
]
AFTER_THE_COMMIT: Death = (f"{HERE}.worker:look", "after", 1)


class Doomed:
    """Services on one database, each with its own moment to die."""

    def __init__(self, environ: dict[str, str], run_folder: Path, log: Path) -> None:
        self._how = (environ, run_folder, log)

    async def die(self, deaths: Sequence[Death]) -> None:
        """All at once: each takes its turn at the session when the one before it is dead."""
        services = [ServiceProcess(SERVICE, *self._how, dies=death).start(is_awaited=False) for death in deaths]
        try:
            await asyncio.gather(*(asyncio.to_thread(service.wait_for_death) for service in services))
        finally:
            for service in services:
                service.kill()


async def endings(pool: Pool, weighing: Weighing) -> list[dict[str, object]]:
    told = await told_of(pool, weighing.id)
    return [payload for event_type, _, payload in told if event_type == event_types.SESSION_FINALIZED]


async def test_killed_anywhere_a_session_is_incomplete_heals_and_is_told_exactly_once(
    edge_pool: Pool, edge_url: str, run_folder: Path, tmp_path: Path
) -> None:
    await register_stations(edge_pool)
    edge, weighing = Edge(edge_pool), Weighing()
    environ = {"DATABASE_URL": edge_url, "ADMIN_TOKEN": "for-this-test-only"}
    doomed = Doomed(environ, run_folder, tmp_path / "session.log")

    # It was heard of long ago by the clock that the services go by.
    await edge.hear(weighing.created(), weighing.weight(10, 120.5))
    await doomed.die(INSIDE_THE_TIMEOUT)
    assert await open_alerts(edge_pool) == {}
    assert await edge_pool.fetchval("SELECT incomplete_since FROM weight_sessions") is None
    await doomed.die([AFTER_THE_COMMIT])
    assert len(await open_alerts(edge_pool)) == 1
    assert await edge_pool.fetchval("SELECT incomplete_since FROM weight_sessions") is not None

    await edge.upload(weighing, 1)
    await edge.hear(weighing.finalized(60, 1))
    await doomed.die(INSIDE_THE_HEALING)
    assert len(await open_alerts(edge_pool)) == 1
    assert await endings(edge_pool, weighing) == []
    await doomed.die([AFTER_THE_COMMIT])
    assert await open_alerts(edge_pool) == {}
    (ending,) = await endings(edge_pool, weighing)
    assert ending["image_count"] == 1

    # One that lives looks at all that is due: at another session, and no more at this one.
    await edge.hear(Weighing().created())
    with service_process(SERVICE, environ, run_folder, tmp_path / "session.log"):
        await eventually(lambda: open_alerts(edge_pool), what="the other session to be incomplete")
    assert await endings(edge_pool, weighing) == [ending]
    assert await edge_pool.fetchval("SELECT count(*) FROM ops_alerts") == 2
