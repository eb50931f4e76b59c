"""The figures of the backlog and of the pictures that wait, and what the cloud holds."""

from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.held import HeldSubjects, keep_alerts, keep_grant_alerts
from farmiq.edge.sync_forwarder.pictures import store as pictures
from farmiq.edge.sync_forwarder.pictures.counters import PictureCounters
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.sampling import keep_sampling
from farmiq.outbox.backlog import measure
from farmiq.outbox.held import held_subjects, wake_one_of_each
from farmiq.outbox.wakeup import Wakeup


async def sample(
    life: Lifetime,
    pool: Pool,
    counters: Counters,
    picture_counters: PictureCounters,
    held: HeldSubjects,
    wakeup: Wakeup,
    edge_cluster_id: str,
) -> None:
    async def look(connection: Connection) -> None:
        backlog, paused = await measure(connection), await store.paused_tenants(connection)
        picture_counters.sampled(await pictures.counts(connection))
        rows = await held_subjects(connection)
        held.learn(rows)
        await keep_alerts(connection, rows)
        await keep_grant_alerts(connection, await store.refused_tenants(connection), edge_cluster_id)
        if any(row.parked for row in rows) and await wake_one_of_each(connection):
            wakeup.poke()
        counters.sampled(backlog, paused, life.clock.now())

    await keep_sampling(life, pool, look)
