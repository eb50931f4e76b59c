"""The farm of a drill: a whole one, in a folder and on ports of its own, with nothing of the shell's settings in it."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from farmiq.backup import frozen
from farmiq.backup.manifest import Tier
from farmiq.backup.servers import place_of
from farmiq.contracts.services import SERVICES
from farmiq.kit.object_inventory import walk
from farmiq.kit.s3_settings import open_store
from farmiq.stack import control
from farmiq.stack.external import External
from farmiq.stack.home import Home
from farmiq.stack.ports import choose_ports
from farmiq.stack.private_files import remove
from farmiq.stack.servers import server_ports

# More samples than a farm has by default, and short waits, so that a drill of minutes shows what months would.
FASTER: Final = {
    "SAMPLE_INTERVAL_MS": "100",
    "OUTBOX_LEASE_SECONDS": "5",
    "NODE_FORWARDER_RESEND_SECONDS": "3",
    "MEDIA_SYNC_WANTED_SECONDS": "5",
}
RUN: Final = tuple(service for service in SERVICES if service.tier != "people")
DELETED_AT_ONCE: Final = 1000


@dataclass(frozen=True)
class DrillFarm:
    home: Home
    environ: Mapping[str, str]

    def choose_ports(self) -> None:
        """Away from the standard ones, which the farm that is drilled for may need at any moment."""
        names = [*server_ports(External()), *(service.name for service in SERVICES if service.port is not None)]
        self.home.create()
        choose_ports(self.home.ports_file, dict.fromkeys(names))

    def start(self) -> None:
        control.start(self.home, self.environ, RUN)
        control.wait_until_healthy(self.home, lambda _: None)

    def stop(self, *, purge: bool = False) -> None:
        control.stop(self.home, purge=purge)

    def lose_disks(self) -> None:
        """What is left of both tiers is what their devices have."""
        remove(self.home.server_folder(name) for name in ("postgres", "seaweedfs", "rabbitmq", "mosquitto"))

    def lose_bus(self) -> None:
        remove([self.home.server_folder("rabbitmq")])

    async def lose_tier(self, tier: Tier, say: Callable[[str], None]) -> None:
        """Every row and every picture of one tier, while the servers run."""
        place = place_of(self.home, tier)
        async with frozen.connected(place.database_url) as connection:
            await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        store = open_store(place.store)
        keys = [found.key async for found in walk(store, place.store.media_bucket)]
        await store.delete_many(place.store.media_bucket, keys)
        store.close()
        say(f"the {tier} has lost its database and {len(keys)} pictures")


def drill_environment(environ: Mapping[str, str], home: Path, **more: str) -> dict[str, str]:
    """A drill must never reach a server or a bucket that the shell names."""
    named = ("_URL", "_URL_FILE", "_BUCKET", "_ENDPOINT", "_KEY", "_TOKEN")
    kept = {name: value for name, value in environ.items() if not name.endswith(named)}
    return kept | FASTER | {"FARMIQ_HOME": str(home)} | more


def own_environment(home: Path, **more: str) -> dict[str, str]:
    return drill_environment(os.environ, home, **more)
