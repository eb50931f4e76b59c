"""The figures of the backlog and of the pictures that wait."""

from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.pictures import store as pictures
from farmiq.edge.sync_forwarder.pictures.counters import PictureCounters
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.sampling import keep_sampling
from farmiq.outbox.backlog import measure


async def sample(life: Lifetime, pool: Pool, counters: Counters, picture_counters: PictureCounters) -> None:
    async def look(connection: Connection) -> None:
        backlog, paused = await measure(connection), await store.paused_tenants(connection)
        picture_counters.sampled(await pictures.counts(connection))
        counters.sampled(backlog, paused, life.clock.now())

    await keep_sampling(life, pool, look)
