import asyncio
import json
import re
import signal
from asyncio.subprocess import PIPE, STDOUT
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from farmiq.stack import binaries
from farmiq.stack.errors import StackError
from farmiq.stack.private_files import private_folder, remove, write_private
from farmiq.stack.program import plain_environment

# Its parts talk to each other over ports of their own. One that is not given would be some other port plus 10000.
PORTS = ("s3", "s3_grpc", "master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc")


# Bytes are synced before a PUT is answered. Kept by the store itself, so saying it again changes nothing.
_SYNC_RULE = b"fs.configure -locationPrefix=/buckets/ -fsync -apply\nexit\n"


class RuleRefused(StackError):
    """The object store does not take the rule to sync each upload before it answers."""


class VolumesAway(StackError):
    """The object store answers, but the part of it that keeps the bytes is not there yet."""


@dataclass(frozen=True)
class S3Identity:
    """Who may sign requests. `bucket` is the only one that it can see, make and fill; None is all of them."""

    name: str
    access_key: str
    secret_key: str
    bucket: str | None = None

    def described(self) -> dict[str, object]:
        limit = "" if self.bucket is None else f":{self.bucket}"
        return {
            "name": self.name,
            "credentials": [{"accessKey": self.access_key, "secretKey": self.secret_key}],
            "actions": [f"{action}{limit}" for action in ("Admin", "Read", "Write", "List", "Tagging")],
        }


@dataclass(frozen=True)
class SeaweedFs:
    """A private S3 object store that serves only requests signed with the key of one of its identities."""

    folder: Path
    ports: dict[str, int]
    identities: tuple[S3Identity, ...]
    internal_key: str

    name = "seaweedfs"
    # Asked politely, its parts wait 15 s for each other. What it has acknowledged is on the disk, so an abrupt end loses nothing.
    stop_signal = signal.SIGKILL
    stop_seconds = 5.0

    @property
    def port(self) -> int:
        return self.ports["s3"]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        remove(self.outside())
        private_folder(self.folder)
        private_folder(self.folder / "data")
        identities = [identity.described() for identity in self.identities]
        write_private(self.folder / "identities.json", json.dumps({"identities": identities}, indent=2))
        # The store's inner doors (filer, volumes) ask for a token too, or a neighbour on this machine could walk past S3.
        sections = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")
        security = "".join(f'[{section}]\nkey = "{self.internal_key}"\n' for section in sections)
        private_folder(self.folder / ".seaweedfs")
        write_private(self.folder / ".seaweedfs" / "security.toml", security)
        # Where the objects are listed. SeaweedFS's own choice is never synced: a power cut makes an answered PUT a 404.
        listing = json.dumps(str(self.folder / "data" / "filer.db"))
        write_private(self.folder / ".seaweedfs" / "filer.toml", f"[sqlite]\nenabled = true\ndbFile = {listing}\n")

    def command(self) -> list[str]:
        return [
            binaries.weed(),
            "-logtostderr=true",
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={self.folder / 'data'}",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=256",
            "-master.electionTimeout=1s",  # it is the only candidate, and 10 s is what each restart would wait
            "-volume.max=0",
            "-filer",
            "-filer.exposeDirectoryData=false",
            "-s3",
            f"-s3.config={self.folder / 'identities.json'}",
            "-s3.iam=false",
            "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            *self._port_options(),
        ]

    def environment(self) -> dict[str, str]:
        return plain_environment() | {"HOME": str(self.folder)}

    async def sync_before_answering(self) -> None:
        """Once it runs, and before anything is stored: what was answered with 200 survives a power cut."""
        ports = self.ports
        shell = await asyncio.create_subprocess_exec(
            binaries.weed(),
            "shell",
            f"-master=127.0.0.1:{ports['master']}.{ports['master_grpc']}",
            f"-filer=127.0.0.1:{ports['filer']}.{ports['filer_grpc']}",
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            env=self.environment(),
        )
        said, _ = await shell.communicate(_SYNC_RULE)
        if not re.search(rb'"fsync":\s+true', said):
            raise RuleRefused(f"weed shell said: {said.decode(errors='replace')[-300:].strip()}")

    async def probe(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5), raise_for_status=True) as session:
            async with session.get(f"{self.endpoint}/status"):
                pass
            # The S3 part answers before the part that keeps the bytes has reported what it has.
            async with session.get(f"http://127.0.0.1:{self.ports['master']}/dir/status") as answer:
                if not (await answer.json())["Topology"]["DataCenters"]:
                    raise VolumesAway("no volume server has reported to the master yet")

    def outside(self) -> list[Path]:
        place = Path("/tmp")  # noqa: S108 - SeaweedFS's choice, wherever TMPDIR points
        return [place / f"seaweedfs-{name.replace('_', '-')}-{port}.sock" for name, port in self.ports.items()]

    def _port_options(self) -> list[str]:
        return [
            f"-{name.replace('_', '.port.') if '_' in name else name + '.port'}={port}"
            for name, port in self.ports.items()
        ]
