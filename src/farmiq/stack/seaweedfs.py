import asyncio
import base64
import hmac
import json
import re
import signal
import ssl
import time
from asyncio.subprocess import PIPE, STDOUT
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct, field

from farmiq.kit.logging import get_logger
from farmiq.stack import binaries
from farmiq.stack.certificates import write_certificates
from farmiq.stack.errors import StackError
from farmiq.stack.private_files import private_folder, remove, write_private
from farmiq.stack.program import plain_environment

# Its parts talk to each other over ports of their own. One that is not given would be some other port plus 10000.
PORTS = ("s3", "s3_grpc", "master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc")


BUCKETS = "/buckets/"
# Bytes are synced before a PUT is answered. Kept by the store itself, so saying it again changes nothing.
_SYNC_RULE = f"fs.configure -locationPrefix={BUCKETS} -fsync -apply\nexit\n".encode()
_CERTIFICATES = "certificates"
RULE_CHECK_SECONDS = 60.0

log = get_logger(__name__)


class RuleRefused(StackError):
    """The object store does not take the rule to sync each upload before it answers."""


class VolumesAway(StackError):
    """The object store answers, but the part of it that keeps the bytes is not there yet."""


class _Location(Struct):
    location_prefix: str = field(default="", name="locationPrefix")
    fsync: bool = False


class _Rules(Struct):
    locations: list[_Location] = []


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
        write_certificates(self._certificates, self.name)
        # In the folder that it runs in: below $HOME it is not found when our path has a `$`, and nothing is locked then.
        write_private(self.folder / "security.toml", self.security())
        private_folder(self.folder / ".seaweedfs")
        # Where the objects are listed. SeaweedFS's own choice is never synced: a power cut makes an answered PUT a 404.
        listing = json.dumps(str(self.folder / "data" / "filer.db"))
        write_private(self.folder / ".seaweedfs" / "filer.toml", f"[sqlite]\nenabled = true\ndbFile = {listing}\n")

    def command(self) -> list[str]:
        return [
            "env",
            f"--chdir={self.folder}",
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
            cwd=self.folder,
            env=self.environment(),
        )
        try:
            said, _ = await shell.communicate(_SYNC_RULE)
        finally:
            if shell.returncode is None:
                shell.kill()
                await shell.wait()
        if not re.search(rb'"fsync":\s+true', said):
            raise RuleRefused(f"weed shell said: {said.decode(errors='replace')[-300:].strip()}")

    async def syncs_before_answering(self) -> bool:
        """Read from the store itself, without a program of its own: that costs half a second of computing."""
        rules = f"http://127.0.0.1:{self.ports['filer']}/etc/seaweedfs/filer.conf"
        headers = {"Authorization": f"Bearer {_token(self.internal_key)}"}
        async with _session() as session, session.get(rules, headers=headers) as answer:
            if answer.status == 404:
                return False
            answer.raise_for_status()
            locations = msgspec.json.decode(await answer.read(), type=_Rules).locations
        return any(location.location_prefix == BUCKETS and location.fsync for location in locations)

    async def probe(self) -> None:
        async with _session() as session:
            async with session.get(f"{self.endpoint}/status", raise_for_status=True):
                pass
            # The S3 part answers before the part that keeps the bytes has reported what it has.
            topology = f"https://127.0.0.1:{self.ports['master']}/dir/status"
            async with session.get(topology, ssl=self._client_context(), raise_for_status=True) as answer:
                if not (await answer.json())["Topology"]["DataCenters"]:
                    raise VolumesAway("no volume server has reported to the master yet")

    def outside(self) -> list[Path]:
        place = Path("/tmp")  # noqa: S108 - SeaweedFS's choice, wherever TMPDIR points
        return [place / f"seaweedfs-{name.replace('_', '-')}-{port}.sock" for name, port in self.ports.items()]

    def _client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._certificates / "ca.pem")
        context.check_hostname = False  # the key is what counts: nobody else has a certificate of this authority
        context.load_cert_chain(self._certificates / "cert.pem", self._certificates / "key.pem")
        return context

    @property
    def _certificates(self) -> Path:
        return self.folder / _CERTIFICATES

    def security(self) -> str:
        """Each inner way into the store asks for something that another user of this machine does not have: the HTTP ports
        of filer and volumes for a token; gRPC, and the HTTP port of the master, which hands out such tokens, for our
        certificate."""
        tokens = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")
        own = {part: f"{_CERTIFICATES}/{part}.pem" for part in ("cert", "key")}
        authority = {"ca": f"{_CERTIFICATES}/ca.pem"}
        tables = {name: {"key": self.internal_key} for name in tokens}
        tables |= {f"grpc.{part}": own for part in ("master", "volume", "filer", "s3", "client")}
        tables |= {"grpc": authority, "https.master": own | authority}
        return "".join(
            f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entries.items())
            for table, entries in tables.items()
        )

    def _port_options(self) -> list[str]:
        return [
            f"-{name.replace('_', '.port.') if '_' in name else name + '.port'}={port}"
            for name, port in self.ports.items()
        ]


async def keep_sync_rule(store: SeaweedFs, check_seconds: float = RULE_CHECK_SECONDS) -> None:
    """Until cancelled. Whoever may write to the store's own configuration can take the rule away while it runs."""
    while True:
        await asyncio.sleep(check_seconds)
        try:
            if not await store.syncs_before_answering():
                log.error("sync_rule_removed", effect="uploads may have been answered before they were on the disk")
                await store.sync_before_answering()
                log.info("sync_rule_restored")
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, OSError, StackError) as error:
            log.warning("sync_rule_not_checked", reason=str(error) or type(error).__name__)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))


def _token(key: str) -> str:
    """A JSON web token, valid for ten seconds: what the filer asks of its readers."""
    claims = msgspec.json.encode({"exp": int(time.time()) + 10})
    signed = b".".join(_base64(part) for part in (b'{"alg":"HS256","typ":"JWT"}', claims))
    return b".".join((signed, _base64(hmac.digest(key.encode(), signed, "sha256")))).decode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
