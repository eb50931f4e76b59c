"""A weigh station as a process: its scale is a pty that a test writes to, its camera a folder, its edge a real one."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

from farmiq.edge.ingress_gateway.main import serve as gateway
from farmiq.edge.media_store.main import serve as media_store
from farmiq.edge.weighvision_session.main import serve as sessions
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support import gateway as gateway_world
from support import media_world
from support.mosquitto import Broker
from support.picture_files import picture
from support.s3 import S3
from support.service_process import Death, running
from support.waiting import eventually, wait_for

TESTS = Path(__file__).parents[3]
RUNNER = Path(__file__).with_name("run_station.py")
FRAMES_PER_SECOND = 25.0


def line_of(kg: float) -> bytes:
    return f"ST,GS,{kg:+09.2f}kg\r\n".encode()


class SerialLine:
    """The far end of a serial cable: goes on saying the weight that was set, until the cable is pulled."""

    def __init__(self, path: Path, frame_of: Callable[[float], bytes] = line_of) -> None:
        self._path = path
        self._frame_of = frame_of
        self._ended = threading.Event()
        self.kg: float | None = 0.0  # None: the indicator is off
        self.plug()
        threading.Thread(target=self._speak, daemon=True).start()

    def plug(self) -> None:
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self._path.unlink(missing_ok=True)
        self._path.symlink_to(os.ttyname(self._slave))

    def pull(self) -> None:
        self._path.unlink()
        master, self._master = self._master, -1
        os.close(master)
        os.close(self._slave)

    def say(self, data: bytes) -> None:
        if self._master >= 0:
            try:
                os.set_blocking(self._master, False)
                os.write(self._master, data)
            except OSError:
                return  # nobody listens, or the cable has just been pulled: an indicator does not mind

    def end(self) -> None:
        self._ended.set()

    def _speak(self) -> None:
        while not self._ended.wait(1 / FRAMES_PER_SECOND):
            if self.kg is not None:
                self.say(self._frame_of(self.kg))


class Station:
    """One station with its folder. `start` and `kill` as often as a test likes."""

    def __init__(self, folder: Path, device_id: str, run_folder: Path, **variables: str) -> None:
        self.folder = folder
        self.device_id = device_id
        self.tenant_id = "demo"
        self.queue_folder = folder / "queue"
        self._run_folder = run_folder
        self.variables = variables
        self.tables: dict[str, dict[str, Any]] = {}
        folder.mkdir(parents=True)
        self.pictures = folder / "camera"
        self.pictures.mkdir()
        for number in range(5):
            (self.pictures / f"{number}.jpg").write_bytes(picture(width=320 + number, height=240))
        self.scale = SerialLine(folder / "ttyS0")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def origin(self) -> Origin:
        return Origin(self.tenant_id, "farm-1", "barn-1", self.device_id)

    @property
    def log(self) -> Path:
        return self.folder / "agent.log"

    def start(self, dies: Death | None = None) -> None:
        self._write_file()
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(TESTS),
            "FARMIQ_STACK": str(self._run_folder),
            "TENANT_ID": self.tenant_id,
            "FARM_ID": "farm-1",
            "BARN_ID": "barn-1",
            "DEVICE_ID": self.device_id,
            "WEIGHVISION_QUEUE_DIR": str(self.queue_folder),
            "WEIGHVISION_STATION": str(self.folder / "station.toml"),
            "WEIGHVISION_KEEP_FREE_BYTES": "0",
            "WEIGHVISION_RESEND_SECONDS": "2",
            "REPLAY_MSGS_PER_SEC": "100",
            **self.variables,
        }
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        death = [str(part) for part in dies] if dies else []
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, str(RUNNER), *death],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=30)

    def is_dead(self) -> bool:
        """True once it has killed itself as appointed; fails when it ended in any other way."""
        assert self._process is not None
        code = self._process.poll()
        assert code in (None, -signal.SIGKILL), f"ended with {code}:\n{self.log.read_text()[-3000:]}"
        return code is not None

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Of the station's own queue, as it is on its disk now."""
        if not (self.queue_folder / "queue.db").exists():
            return []
        with closing(sqlite3.connect(f"file:{self.queue_folder}/queue.db?mode=ro", uri=True, timeout=10)) as connection:
            try:
                return connection.execute(statement).fetchall()
            except sqlite3.OperationalError:
                return []  # not even its tables are there yet

    def sessions(self) -> list[tuple[str, str, int]]:
        return self.rows("SELECT session_id, state, image_count FROM sessions ORDER BY began_us")

    def waiting(self) -> int:
        events = self.rows("SELECT 1 FROM events WHERE state IN ('waiting', 'gathering')")
        return len(events + self.rows("SELECT 1 FROM pictures WHERE state IN ('waiting', 'presigned', 'uploaded')"))

    def status(self) -> dict[str, Any]:
        path = self.queue_folder / "status.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def logged(self, message: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["message"] == message]

    def is_watching(self) -> bool:
        """It has heard the empty scale: an animal that comes from here on has come."""
        return '"message":"scale_connected"' in self.log.read_text()[self._log_start :]

    def weigh(self, kg: float, sessions: int = 1) -> None:
        """An animal comes and stays until the station has ended its session; then it leaves."""
        self.scale.kg = kg
        wait_for(
            lambda: [state for _, state, _ in self.sessions()] == ["closed"] * sessions,
            30,
            f"{sessions} closed sessions at {self.device_id}",
        )
        self.scale.kg = 0.0

    def scale_is_empty(self) -> bool:
        """The station has seen the animal leave."""
        return len(self.logged("animal_left")) == len(self.sessions())

    def _write_file(self) -> None:
        tables: dict[str, dict[str, Any]] = {
            "scale": {"driver": "serial", "port": str(self.folder / "ttyS0"), "protocol": "ascii"},
            "camera": {"driver": "folder", "folder": str(self.pictures)},
            "session": {
                "stable_window_seconds": 0.4,
                "stable_tolerance_kg": 0.5,
                "pictures": 3,
                "picture_interval_seconds": 0.1,
            },
        }
        for name, table in self.tables.items():
            tables[name] = {**tables.get(name, {}), **table}
        lines = [
            f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items())
            for name, table in tables.items()
        ]
        (self.folder / "station.toml").write_text("\n".join(lines))


class Edge:
    """Gateway, media store and sessions inside the test's loop; broker, database and object store are servers of their own."""

    def __init__(self, pool: Pool, url: str, broker: Broker, s3: S3) -> None:
        self.pool = pool
        self.broker = broker
        self._url = url
        self._s3 = s3
        self.media_url = self.sessions_url = ""
        self._up = AsyncExitStack()

    async def start(self, **media: str) -> None:
        environ = gateway_world.environment(self._url, self.broker)
        await self._up.enter_async_context(running(gateway, "edge-ingress-gateway", environ))
        settings = {"MEDIA_SWEEP_SECONDS": "2", **media}
        self.media_url = await self._up.enter_async_context(
            running(media_store, "edge-media-store", media_world.environment(self._url, self._s3, **settings))
        )
        session = {"DATABASE_URL": self._url, "ADMIN_TOKEN": "for-this-test-only", "SESSION_SETTLE_SECONDS": "0"}
        self.sessions_url = await self._up.enter_async_context(running(sessions, "edge-weighvision-session", session))

    async def stop(self) -> None:
        await self._up.aclose()

    async def admit(self, station: Station) -> None:
        station.variables = {
            "MQTT_URL": self.broker.url(station.device_id),
            "EDGE_MEDIA_STORE_URL": self.media_url,
            "HTTP_TOKEN": await media_world.register(self.pool, station.origin),
            **station.variables,
        }

    async def sessions_of(self, station: Station) -> list[tuple[Any, ...]]:
        """What the edge knows: status, pictures counted and pictures stored, of each session of this station."""
        rows = await self.pool.fetch(
            "SELECT s.id::text, s.status, s.image_count, s.final_weight_kg::float8,"
            " (SELECT count(*) FROM media_objects AS m WHERE m.session_id = s.id AND m.state = 'stored')"
            " FROM weight_sessions AS s WHERE s.device_id = $1 ORDER BY s.id",
            station.device_id,
        )
        return [tuple(row) for row in rows]

    async def swept(self) -> None:
        """Every upload that nobody announced has been looked for since this was called."""
        pending = "SELECT count(*) FROM media_objects WHERE state = 'presigned' AND checks = 0"
        await eventually(lambda: self._is_none(pending), 30, "the sweep for uploads that nobody announced")

    async def _is_none(self, statement: str) -> bool:
        return int(await self.pool.fetchval(statement)) == 0

    async def is_whole(self, station: Station, sessions: int = 1) -> bool:
        """Every session is finalized with all its pictures stored, and the station has nothing left to send."""
        known = await self.sessions_of(station)
        closed = [state for _, state, _ in station.sessions()] == ["closed"] * sessions
        whole = all(status == "finalized" and expected == stored for _, status, expected, _, stored in known)
        return closed and len(known) == sessions and whole and station.waiting() == 0


@asynccontextmanager
async def edge_running(pool: Pool, url: str, broker: Broker, s3: S3, **media: str) -> AsyncIterator[Edge]:
    edge = Edge(pool, url, broker, s3)
    await edge.start(**media)
    try:
        yield edge
    finally:
        await edge.stop()


@contextmanager
def stations(*some: Station) -> Iterator[None]:
    try:
        yield
    finally:
        for station in some:
            station.kill()
            station.scale.end()
